"""How TensorFlow is set up: seen from outside, in processes of their own."""

import json
import os
import subprocess
import sys

import pytest

FLAG = "--xla_cpu_enable_concurrency_optimized_scheduler"
CALLS = 200
WAKINGS = """
import contextlib, os
from pathlib import Path

def wakings():  # of threads other than the main one
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            for line in (task / "status").read_text().splitlines():
                if line.startswith("voluntary_ctxt_switches") and int(task.name) != os.getpid():
                    found[task.name] = int(line.split()[1])
    return found

def most_woken(before, after):
    return max(after.get(thread, count) - count for thread, count in before.items())
"""
# Calls a compiled program of many independent products; prints how often other threads than the
# caller's were woken meanwhile.
WAKING = f"""{WAKINGS}
import json, time
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

function = CompiledFunction(products, tf.TensorSpec((32, 32), tf.float32))
x = np.full((32, 32), 0.01, np.float32)
function(x)
before = wakings()
for _ in range({CALLS}):
    function(x)
    time.sleep(0.001)
print(json.dumps([most_woken(before, wakings()), os.environ["XLA_FLAGS"]]))
"""

# Trains, then repeats the last update's gradient steps; prints how often the actor's and the
# critic's woke other threads than the caller's.
UPDATING = f"""{WAKINGS}
import json, time
from acx.runtime import load_tensorflow
load_tensorflow()
from acx import runs
from acx.minimizer import Minimizer

run, batches = Minimizer.run, {{}}

def noted(self, batch):
    batches[self] = batch
    return run(self, batch)

Minimizer.run = noted
experiment = runs.build(
    ["experiments/bases/ppo.gin"],
    [
        "total_steps = 1024",
        "Environment.env_id = 'Pendulum-v1'",
        "Environment.num_envs = 4",
        "Experiment.rollout_length = 64",
        "Learner.minibatch_size = 64",
        "Agent.policy_head = @GaussianTanhHead()",
        "Evaluation.final_episodes = 1",
    ],
)
experiment.run([])
woken = []
for minimizer, batch in batches.items():
    before = wakings()
    for _ in range({CALLS}):
        run(minimizer, batch)
        time.sleep(0.001)
    woken.append(most_woken(before, wakings()))
print(json.dumps(woken))
"""


def run(flags):
    environment = {**os.environ, "XLA_FLAGS": flags}
    # Names the folder of this process' programs, once a test has loaded TensorFlow: what the call
    # with one flag keeps there, the call with the other would run.
    environment.pop("TF_XLA_FLAGS", None)
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


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_gradient_steps_are_taken_in_the_thread_that_asks_for_them():
    done = subprocess.run(
        [sys.executable, "-c", UPDATING], capture_output=True, text=True, check=True
    )
    woken = json.loads(done.stdout.splitlines()[-1])  # the actor's and the critic's
    assert len(woken) == 2
    assert max(woken) < CALLS / 10


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
