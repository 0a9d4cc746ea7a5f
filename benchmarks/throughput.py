"""Environment steps per second, side by side with peers in one run.

python -m benchmarks.throughput [--cleanrl=PATH] [--purejaxrl=PATH] [--works=NAMES] [--runs=5]

Each work (benchmarks/works.json: environment, sizes, epochs) runs in a process of its own, acx and
its peers in turn, so that a slow spell of the machine hits all. Stable-Baselines3 and CleanRL run
with one thread and with all, and the better setting counts; TF-Agents was faster with one in every
trial, PureJaxRL with all. Ratios are of medians. CleanRL and PureJaxRL are no packages: they are
measured from copies that the flags name, and left out without one. Exits with 1 where a goal is
missed.
"""

import json
import os
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from absl import app, flags

from benchmarks.pages import PERFORMANCE, markdown, put, show
from benchmarks.workers import Measured, measure, median

HERE = Path(__file__).parent
RESULT = HERE / "results/throughput.json"
PICTURE = HERE.parent / "docs/images/throughput.png"

PEERS = {
    "sb3": "Stable-Baselines3",
    "cleanrl": "CleanRL",
    "tf_agents": "TF-Agents",
    "purejaxrl": "PureJaxRL",
}
COPIES = {
    name: flags.DEFINE_string(name, None, f"A copy of {PEERS[name]}'s repository.")
    for name in ("cleanrl", "purejaxrl")
}
PYTHONS = flags.DEFINE_string("peers", ".venv-peers", "The folder with an environment a peer.")
WORKS = flags.DEFINE_list("works", None, "Names in works.json; all by default.")
RUNS = flags.DEFINE_integer("runs", 5, "Alternating runs of each.", lower_bound=1)
DRAW = flags.DEFINE_bool("draw", False, "Only print and draw what was measured last.")


def commands(work: Measured) -> Iterator[tuple[str, Measured, list[str]]]:
    """System, its setting, command line: of acx, and of each peer that the work has a goal for.

    A peer comes in each of its settings; where acx steps environments in several processes,
    Stable-Baselines3 does so too.
    """
    text, cores = json.dumps(work), os.cpu_count() or 1
    yield "acx", {"threads": cores}, [sys.executable, "-m", "benchmarks.peers.own", text]
    for name in work["goals"]:
        copy = []
        if name in COPIES:
            if COPIES[name].value is None:
                continue
            copy = [f"--{name}={COPIES[name].value}"]
        python = Path(PYTHONS.value, name, "bin/python")
        for threads in {"tf_agents": [1], "purejaxrl": [cores]}.get(name, sorted({1, cores})):
            worker = f"benchmarks.peers.{name}"
            command = [str(python), "-m", worker, text, str(threads), *copy]
            yield name, {"threads": threads}, command
            if name == "sb3" and work.get("vectorization") == "parallel":
                setting = {"threads": threads, "processes": work["num_envs"]}
                yield name, setting, [*command, "--processes"]


def alternate(work: Measured, runs: int) -> list[Measured]:
    """All systems in turn, `runs` times; one entry a system and thread setting."""
    systems: list[tuple[Measured, list[str]]] = [
        ({"system": name, **setting, "runs": []}, command)
        for name, setting, command in commands(work)
    ]
    for _ in range(runs):
        for system, command in systems:
            system["runs"].append(measure(command))
    return [system for system, _ in systems]


def best(systems: list[Measured], name: str) -> Measured | None:
    """A system in its fastest setting."""
    own = [system for system in systems if system["system"] == name]
    return max(own, key=lambda s: median(s, "steps_per_second"), default=None)


HEADER = ("work", "system", "runs", "steps/s", "start-up s", "memory MB", "acx is", "goal")


def report(kept: dict[str, Any]) -> tuple[list[list[str]], int, int]:
    """The table's rows; goals that were missed, and that were not measured."""
    rows: list[list[str]] = []
    missed = unmeasured = 0
    works = json.loads((HERE / "works.json").read_text())
    for work, systems in kept.items():
        own = best(systems, "acx")
        assert own is not None
        speed = median(own, "steps_per_second")
        for number, name in enumerate(["acx", *works[work]["goals"]]):
            system, goal = best(systems, name), works[work]["goals"].get(name)
            row = [work if number == 0 else "", PEERS.get(name, name)]
            if system is None:
                unmeasured += 1
                rows.append([*row, "0", "not measured", "", "", "", f"≥ {goal:g}"])
                continue
            ratio = speed / median(system, "steps_per_second")
            kept_goal = goal is None or ratio >= goal
            missed += not kept_goal
            figures = (
                f"{median(system, 'steps_per_second'):,.0f}",
                f"{median(system, 'startup'):.1f}",
            )
            row += [str(len(system["runs"])), *figures, f"{median(system, 'memory_mb'):,.0f}"]
            faster = "" if goal is None else f"{ratio:.2f} times as fast"
            aim = "" if goal is None else f"≥ {goal:g}{'' if kept_goal else ', missed'}"
            rows.append([*row, faster, aim])
    return rows, missed, unmeasured


def draw(kept: dict[str, Any]) -> None:
    """One bar a system and work, the range of the runs as a line."""
    import matplotlib.pyplot as plt

    colors = dict(
        zip(["acx", *PEERS], ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#999999"], strict=True)
    )
    figure, axes = plt.subplots(
        1, len(kept), figsize=(2.1 * len(kept), 2.8), layout="constrained", squeeze=False
    )
    for axis, (work, systems) in zip(axes[0], kept.items(), strict=True):
        shown = [s for name in colors if (s := best(systems, name)) is not None]
        for place, system in enumerate(shown):
            speeds = [run["steps_per_second"] / 1000 for run in system["runs"]]
            axis.bar(place, statistics.median(speeds), color=colors[system["system"]], width=0.7)
            axis.vlines(place, min(speeds), max(speeds), color="#333333", linewidth=1)
        labels = [str(PEERS.get(s["system"], "acx")) for s in shown]
        axis.set_xticks(range(len(shown)), labels, rotation=45, ha="right", fontsize=7)
        axis.set_title(work, fontsize=8)
        axis.tick_params(axis="y", labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("thousand environment steps a second", fontsize=8)
    figure.savefig(PICTURE, dpi=130)


def main(arguments: list[str]) -> int:
    """Measure all works, print the table, keep the figures."""
    works = json.loads((HERE / "works.json").read_text())
    kept = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if not DRAW.value:
        for name in WORKS.value or works:
            kept[name] = alternate(works[name], RUNS.value)
            RESULT.write_text(json.dumps(kept, indent=1) + "\n")
            own = best(kept[name], "acx")
            assert own is not None
            print(f"{name}: acx {median(own, 'steps_per_second'):,.0f} steps/s", flush=True)
    kept = {name: kept[name] for name in works if name in kept}
    draw(kept)
    rows, missed, unmeasured = report(kept)
    show(HEADER, rows)
    versions = sorted({run["version"] for s in kept.values() for w in s for run in w["runs"]})
    print("; ".join(versions))
    put(PERFORMANCE, "throughput", f"{markdown(HEADER, rows)}\n{'; '.join(versions)}.\n")
    print(f"throughput: {missed} goals missed, {unmeasured} not measured")
    return 1 if missed else 0


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
