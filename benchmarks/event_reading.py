"""Read a million scalars with acx's analysis, tbparse and TensorBoard's EventAccumulator.

    python benchmarks/event_reading.py [--scalars=1000000] [--rounds=3]

Each reader runs in a process of its own, import included, and makes one pandas table of all points;
the tables must agree. The peers live in .venv-peers/tbparse, made when it is missing, together with
TensorFlow, which gives both their fast record reader. Readers take turns, so that a busy machine
hurts all alike.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from tensorboard.compat.proto import event_pb2, types_pb2

from acx.observers import record

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT / ".venv-peers" / "tbparse"
TAGS = 20

# Each runs as `python -c SCRIPT folder` and prints [rows, sum of steps, sum of values, peak MB].
ENDING = """
import resource, json
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([len(table), int(table["step"].sum()), float(table["value"].sum()), peak]))
"""
ACX = """
import sys
from analysis import load_runs
table = load_runs(sys.argv[1])
"""
TBPARSE = """
import sys
from tbparse import SummaryReader
reader = SummaryReader(sys.argv[1], extra_columns={"wall_time"})
table = reader.tensors if len(reader.scalars) == 0 else reader.scalars
table = table.assign(value=table["value"].astype(float))
"""
ACCUMULATOR = """
import sys
import pandas as pd
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util
logs = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0})
logs.Reload()
rows = [(t, p.step, p.wall_time, p.value) for t in logs.Tags()["scalars"] for p in logs.Scalars(t)]
rows += [
    (t, p.step, p.wall_time, float(tensor_util.make_ndarray(p.tensor_proto)))
    for t in logs.Tags()["tensors"] for p in logs.Tensors(t)
]
table = pd.DataFrame(rows, columns=["tag", "step", "wall_time", "value"])
"""


def tensor_events(steps: int) -> Iterable[event_pb2.Event]:
    """One event per scalar, as tf.summary.scalar writes it."""
    generator = np.random.default_rng(0)
    for step in range(steps):
        for tag, value in enumerate(generator.normal(size=TAGS)):
            event = event_pb2.Event(wall_time=1.7e9 + step, step=step * 256)
            entry = event.summary.value.add(tag=f"train/metric_{tag}")
            entry.metadata.plugin_data.plugin_name = "scalars"
            entry.tensor.dtype = types_pb2.DT_FLOAT
            entry.tensor.tensor_shape.SetInParent()
            entry.tensor.float_val.append(value)
            yield event


def simple_events(steps: int) -> Iterable[event_pb2.Event]:
    """One event per scalar, as Stable-Baselines3, CleanRL and PyTorch write it."""
    generator = np.random.default_rng(0)
    for step in range(steps):
        for tag, value in enumerate(generator.normal(size=TAGS)):
            event = event_pb2.Event(wall_time=1.7e9 + step, step=step * 256)
            event.summary.value.add(tag=f"train/metric_{tag}", simple_value=value)
            yield event


def packed_events(steps: int) -> Iterable[event_pb2.Event]:
    """One event of all scalars per step, as acx writes it."""
    generator = np.random.default_rng(0)
    for step in range(steps):
        event = event_pb2.Event(wall_time=1.7e9 + step, step=step * 256)
        for tag, value in enumerate(generator.normal(size=TAGS)):
            event.summary.value.add(tag=f"train/metric_{tag}", simple_value=value)
        yield event


def write(folder: Path, events: Iterable[event_pb2.Event]) -> None:
    folder.mkdir()
    with (folder / "events.out.tfevents.1700000000.host").open("wb") as file:
        version = event_pb2.Event(wall_time=1.7e9, file_version="brain.Event:2")
        file.write(record(version.SerializeToString()))
        for event in events:
            file.write(record(event.SerializeToString()))


def measure(python: Path, script: str, folder: Path, cache: Path) -> tuple[float, list[float]]:
    """Run one reader; return its seconds and what it printed."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [str(python), "-c", script + ENDING, str(folder)]
    begin = os.times().elapsed
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=ROOT, check=True
    )
    return os.times().elapsed - begin, json.loads(done.stdout.splitlines()[-1])


def peers() -> Path:
    """Return the peers' Python, made when it is missing."""
    python = PEER / "bin" / "python"
    if not python.exists():
        venv.create(PEER, with_pip=True)
        packages = ["tbparse", "tensorflow>=2.21,<2.22"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


WRITERS: dict[str, Callable[[int], Iterable[event_pb2.Event]]] = {
    "TensorFlow 2's": tensor_events,
    "SB3's": simple_events,
    "acx's": packed_events,
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--scalars", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    own, other = Path(sys.executable), peers()
    readers = {
        "acx": (own, ACX),
        "acx, second time": (own, ACX),
        "tbparse": (other, TBPARSE),
        "EventAccumulator": (other, ACCUMULATOR),
    }
    print(f"{given.scalars:,} scalars, {TAGS} tags; seconds, import included (memory in MB)\n")
    print(f"{'events':15s}" + "".join(f"{name:>24s}" for name in readers) + f"{'ratio':>8s}")
    with tempfile.TemporaryDirectory() as root:
        for writer, events in WRITERS.items():
            folder = Path(root) / writer
            write(folder, events(given.scalars // TAGS))
            _row(writer, folder, readers, given.rounds)


def _row(writer: str, folder: Path, readers: dict[str, tuple[Path, str]], rounds: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in readers}
    results: dict[str, list[float]] = {}
    # A file is copied for the second time only once it has settled.
    os.utime(folder / "events.out.tfevents.1700000000.host", (1.7e9, 1.7e9))
    for number in range(rounds):
        for name, (python, script) in readers.items():
            cache = folder.parent / f"cache {writer} {number}"
            seconds, results[name] = measure(python, script, folder, cache)
            times[name].append(seconds)
    reference = results["acx"]
    for name, result in results.items():
        if not np.allclose(result[:3], reference[:3], rtol=1e-5):
            raise SystemExit(f"{name} read {result[:3]}, acx {reference[:3]}")
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    ratio = min(medians["tbparse"], medians["EventAccumulator"]) / medians["acx"]
    cells = "".join(f"{medians[name]:14.2f} ({results[name][3]:6,.0f})" for name in readers)
    print(f"{writer:15s}{cells}{ratio:7.1f}x", flush=True)


if __name__ == "__main__":
    main()
