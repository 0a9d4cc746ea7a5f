"""How TensorFlow is set up: seen from outside, in processes of their own."""

import json
import os
import subprocess
import sys

import pytest

FLAG = "--xla_cpu_enable_concurrency_optimized_scheduler"
CALLS = 200
# Calls a compiled program of many independent products; prints how often other threads than the
# caller's were woken meanwhile.
WAKING = f"""
import json, os, time
from pathlib import Path
from acx.runtime import load_tensorflow
load_tensorflow()
load_tensorflow()  # once more changes nothing
import numpy as np
import tensorflow as tf
from acx.compilation import CompiledFunction

def products(x):
    matrices = [tf.tanh(x @ (x + k)) for k in range(16)]
    for _ in range(3):
        matrices = [tf.tanh(a @ b) for a, b in zip(matrices, matrices[1:] + matrices[:1])]
    return tf.add_n(matrices)

def wakings():
    found = {{}}
    for task in Path("/proc/self/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches") and int(task.name) != os.getpid():
                found[task.name] = int(line.split()[1])
    return found

function = CompiledFunction(products, tf.TensorSpec((32, 32), tf.float32))
x = np.full((32, 32), 0.01, np.float32)
function(x)
before = wakings()
for _ in range({CALLS}):
    function(x)
    time.sleep(0.001)
after = wakings()
woken = max(after[thread] - before[thread] for thread in before)
print(json.dumps([woken, os.environ["XLA_FLAGS"]]))
"""


def run(flags):
    environment = {**os.environ, "XLA_FLAGS": flags}
    done = subprocess.run(
        [sys.executable, "-c", WAKING], capture_output=True, text=True, env=environment, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_small_program_wakes_no_second_thread_unless_the_user_says_so():
    woken, flags = run("")
    assert woken < CALLS / 10
    assert flags == f"{FLAG}=false"
    woken, flags = run(f"{FLAG}=true")
    assert flags == f"{FLAG}=false {FLAG}=true"
    assert woken > CALLS / 2


def test_the_garbage_collector_leaves_what_imports_made_and_takes_what_comes_later():
    script = """
import gc, weakref
from acx.runtime import load_tensorflow

class Cycle:
    def __init__(self):
        self.itself = self

early = weakref.ref(Cycle())
load_tensorflow()
frozen = gc.get_freeze_count()
later = weakref.ref(Cycle())
load_tensorflow()
assert gc.get_freeze_count() == frozen
gc.collect()
print(gc.isenabled(), frozen > 100_000, early(), later())
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "None", "None"]
