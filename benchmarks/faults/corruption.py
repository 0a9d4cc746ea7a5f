"""Damage to the newest checkpoint: always noticed, always passed over for the one before."""

import shutil
import time
from pathlib import Path

import numpy as np

from acx.checkpoints import CheckpointFolder
from acx.errors import RunError
from benchmarks.faults.comparison import checkpoints, differences
from benchmarks.faults.kills import Undisturbed
from benchmarks.faults.outcome import Outcome
from benchmarks.faults.processes import start_acx


def truncated(content: bytes, rng: np.random.Generator, number: int) -> tuple[bytes, str]:
    """The first bytes: none, one, all but one, then a random number of them."""
    sizes = [0, 1, 31, 32, 33, len(content) - 33, len(content) - 32, len(content) - 1]
    size = sizes[number] if number < len(sizes) else int(rng.integers(len(content)))
    return content[:size], f"truncated to {size} of {len(content)} bytes"


def corrupted(content: bytes, rng: np.random.Generator, number: int) -> tuple[bytes, str]:
    """One flipped bit, a block of zeros or of noise, a doubled block, bytes lost or added."""
    kind = ("bit", "zeros", "noise", "doubled", "lost", "added")[number % 6]
    start = int(rng.integers(len(content)))
    block = content[start : start + int(rng.integers(1, 512))]
    end = start + len(block)
    if kind == "bit":
        new = bytes([content[start] ^ (1 << int(rng.integers(8)))])
        end = start + 1
    else:
        new = {
            "zeros": bytes(len(block)),
            "noise": rng.bytes(len(block)),
            "doubled": block + block,
            "lost": b"",
            "added": block + rng.bytes(8),
        }[kind]
    return content[:start] + new + content[end:], f"{kind} at byte {start}"


def check(
    damage_kind: str, run: Undisturbed, work: Path, count: int, resumed: int, seed: int
) -> Outcome:
    """Damage copies of a run's newest checkpoint `count` times; resume the first `resumed` too."""
    damage = {"truncations": truncated, "corruptions": corrupted}[damage_kind]
    outcome = Outcome("damage", damage_kind, "noticed and named; the checkpoint before is used")
    started, rng = time.monotonic(), np.random.default_rng(seed)
    folder = work / damage_kind
    shutil.copytree(run.folder, folder)
    newest, before = checkpoints(folder)[-1], checkpoints(folder)[-2]
    content = newest.read_bytes()
    number = 0
    while number < count:
        damaged, case = damage(content, rng, number)
        number += 1
        if damaged == content:  # zeros over zeros
            continue
        newest.write_bytes(damaged)
        outcome.count(_problems(folder, newest, before), case)
        if number <= resumed:
            outcome.count(_resume_problems(folder, run, work), f"resumed, {case}")
    outcome.seconds = time.monotonic() - started
    return outcome


def _problems(folder: Path, newest: Path, before: Path) -> list[str]:
    warnings: list[str] = []
    try:
        found = CheckpointFolder(folder / "checkpoints").newest(warnings.append)
    except RunError as error:
        return [f"no fallback: {error}"]
    steps = int(before.stem.removeprefix("step-"))
    problems = []
    if found is None or found[0] != steps:
        problems.append(f"used {found and found[0]} instead of {steps}")
    if len(warnings) != 1 or str(newest) not in warnings[0]:
        problems.append(f"said {warnings}")
    return problems


def _resume_problems(folder: Path, run: Undisturbed, work: Path) -> list[str]:
    copy = work / "resumed"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    child = start_acx([f"--run_dir={copy}", "--resume"], work / "resumed.log")
    if child.wait():
        return [f"resuming failed: {child.output()[-500:]}"]
    named = [] if "damaged" in child.output() else ["the damage was not named"]
    return named + differences(copy, run.folder)
