"""Environment steps per second, side by side with peers in one run.

python -m benchmarks.throughput --sb3=.venv-peers/sb3/bin/python

Each work (benchmarks/works.json: environment, sizes, epochs) runs in a process of its own, acx and
the peer in turn, so that a slow spell of the machine hits both; each peer with 1 thread and with
all, the better one counts. The ratio is of medians. Exits with 1 where a goal is missed.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from absl import app, flags
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
RESULT = HERE / "results/throughput.json"

SB3 = flags.DEFINE_string("sb3", None, "The Python that has Stable-Baselines3.", required=True)
WORKS = flags.DEFINE_list("works", None, "Names in works.json; all by default.")
RUNS = flags.DEFINE_integer("runs", 5, "Alternating runs of each.", lower_bound=1)

Measured = dict[str, Any]


def measure(command: list[str]) -> Measured:
    """Run a worker; returns the JSON object of its last line."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def alternate(work: dict[str, Any], runs: int) -> dict[str, list[Measured]]:
    """acx and the peers in turn."""
    text = json.dumps(work)
    commands = {"acx": [sys.executable, "-m", "benchmarks.peers.own", text]}
    for threads in sorted({1, os.cpu_count() or 1}):
        name = f"sb3, {threads} thread{'s' if threads > 1 else ''}"
        commands[name] = [SB3.value, str(HERE / "peers/sb3.py"), text, str(threads)]
    rounds = [{name: measure(command) for name, command in commands.items()} for _ in range(runs)]
    return {name: [measured[name] for measured in rounds] for name in commands}


def median(measured: list[Measured], key: str) -> float:
    """The median of a figure over runs."""
    return statistics.median(run[key] for run in measured)


def main(arguments: list[str]) -> int:
    """Measure all works, print the table, keep the figures."""
    works = json.loads((HERE / "works.json").read_text())
    table = Table("work", "system", "steps/s", "start-up s", "memory MB", "acx is", "goal")
    missed, kept = 0, {}
    for name in WORKS.value or works:
        measured = alternate(works[name], RUNS.value)
        own = median(measured["acx"], "steps_per_second")
        peer = max(
            median(runs, "steps_per_second") for who, runs in measured.items() if who != "acx"
        )
        goal = works[name]["goals"].get("sb3")
        missed += goal is not None and own / peer < goal
        for who, runs in measured.items():
            speed = median(runs, "steps_per_second")
            table.add_row(
                name if who == "acx" else "",
                who,
                f"{speed:,.0f}",
                f"{median(runs, 'startup'):.1f}",
                f"{median(runs, 'memory_mb'):,.0f}",
                "" if who == "acx" else f"{own / speed:.2f} times as fast",
                f"≥ {goal:g}" if who == "acx" and goal else "",
            )
        kept[name] = {"ratio": round(own / peer, 2), "measured": measured}
        print(f"{name}: acx {own:,.0f}/s, {own / peer:.2f} times Stable-Baselines3", flush=True)
    RESULT.write_text(json.dumps(kept, indent=1) + "\n")
    Console(width=None if sys.stdout.isatty() else 120).print(table)
    print(f"throughput: {missed} goals missed")
    return 1 if missed else 0


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
