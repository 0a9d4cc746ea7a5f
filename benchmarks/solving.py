"""Wall clock from the command to a solved CartPole, beside Stable-Baselines3 with tuned settings.

python -m benchmarks.solving [--runs=5]

Solved is a mean return of 475 over 100 deterministic episodes, played every 2,048 environment steps
while the clock stands. All else counts: interpreter, imports, compilation, logging. acx is its
ordinary command with experiments/cartpole.gin: without programs from earlier runs, with them, and
with a warm process beside (acx.warm, started before the clock), which has the goal.
Stable-Baselines3 has RL Baselines3 Zoo's settings and no log, with one thread and with all. Seeds 0
to N−1 in turn. Exits with 1 where the goal is missed.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from absl import app, flags

from analysis import load_runs
from benchmarks.pages import PERFORMANCE, markdown, put, show
from benchmarks.workers import Measured, measure

HERE = Path(__file__).parent
RESULT = HERE / "results/solving.json"
EVERY, SOLVED, GOAL = 2_048, 475.0, 3.0
WARM = "acx, warm process"

RUNS = flags.DEFINE_integer("runs", 5, "Seeds, in turn.", lower_bound=1)
SB3 = flags.DEFINE_string("sb3", ".venv-peers/sb3/bin/python", "The Python that has the peer.")

HEADER = ("system", "seconds to solved", "all seeds", "steps", "sooner than its peer")


def own(seed: int, programs: str) -> Measured:
    """acx's command; when it was solved is read from its event log."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        bindings = [f"seed = {seed}", f"Evaluation.every = {EVERY}", "Evaluation.episodes = 100"]
        command = [
            *(sys.executable, "-m", "acx.main", "--gin_file=experiments/cartpole.gin"),
            *(f"--gin_bindings={binding}" for binding in bindings),
            f"--run_dir={run}",
        ]
        environment = {**os.environ, "XDG_CACHE_HOME": programs}
        started = time.time()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        scalars = load_runs(run, tags=["eval/mean_reward", "time/evaluate_s"])
    returns = scalars[scalars.tag == "eval/mean_reward"]
    solved = returns[returns.value >= SOLVED].iloc[0]
    evaluated = scalars[(scalars.tag == "time/evaluate_s") & (scalars.step <= solved.step)]
    # The report after an evaluation has the time that it took.
    later = scalars[(scalars.tag == "time/evaluate_s") & (scalars.step > solved.step)]
    paused = evaluated.value.sum() + later.value.iloc[0]
    return {"seconds": float(solved.wall_time - started - paused), "steps": int(solved.step)}


@contextlib.contextmanager
def warm(programs: str) -> Iterator[None]:
    """A warm process for `own`'s commands."""
    environment = {**os.environ, "XDG_CACHE_HOME": programs}
    command = [sys.executable, "-m", "acx.warm"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("ready"):
            assert process.poll() is None, "the warm process didn't start"
        try:
            yield
        finally:
            process.terminate()


def peer(seed: int, threads: int) -> Measured:
    """Stable-Baselines3, timed by its worker."""
    script = str(HERE / "peers/sb3_solving.py")
    command = [SB3.value, script, str(seed), str(threads), str(EVERY), str(time.time())]
    return measure(command)


def main(arguments: list[str]) -> int:
    """Measure, print, keep."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed: compiled modules are kept
    kept: dict[str, list[Measured]] = {}
    threads = sorted({1, os.cpu_count() or 1})
    with tempfile.TemporaryDirectory() as programs:
        own(0, programs)  # compiles what the later runs find
        for seed in range(RUNS.value):
            with tempfile.TemporaryDirectory() as empty:
                kept.setdefault("acx, first run", []).append(own(seed, empty))
            kept.setdefault("acx", []).append(own(seed, programs))
            with warm(programs):
                kept.setdefault(WARM, []).append(own(seed, programs))
            for number in threads:
                name = f"Stable-Baselines3, {number} thread{'s' if number > 1 else ''}"
                kept.setdefault(name, []).append(peer(seed, number))
            print(f"seed {seed} done", flush=True)
    RESULT.write_text(json.dumps(kept, indent=1) + "\n")
    medians = {
        name: statistics.median(run["seconds"] for run in runs) for name, runs in kept.items()
    }
    best = min(seconds for name, seconds in medians.items() if not name.startswith("acx"))
    rows = [
        [
            name,
            f"{medians[name]:.1f}",
            ", ".join(f"{run['seconds']:.1f}" for run in runs),
            f"{statistics.median(run['steps'] for run in runs):,.0f}",
            f"{best / medians[name]:.2f} times" if name.startswith("acx") else "",
        ]
        for name, runs in kept.items()
    ]
    ratio = best / medians[WARM]
    show(HEADER, rows)
    put(PERFORMANCE, "solving", markdown(HEADER, rows))
    print(
        f"solving: {ratio:.2f} times sooner from a warm process, {best / medians['acx']:.2f} else; "
        f"goal {GOAL:g}: {'met' if ratio >= GOAL else 'missed'}"
    )
    return 0 if ratio >= GOAL else 1


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
