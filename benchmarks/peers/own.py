"""acx at the work that benchmarks/throughput.py names; prints what the peers print."""

import json
import sys
import time
from typing import Any

from benchmarks.peers.reporting import Mark, children_mb, print_marks


class Clock:
    """An observer that notes when each report came."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.others_mb = 0.0

    def on_report(self, report: Any) -> None:
        """Note it, and after the first the memory of further processes."""
        self.marks.append((time.perf_counter(), report.env_steps))
        if len(self.marks) == 1:
            self.others_mb = children_mb()

    def on_evaluation(self, env_steps: int, result: Any, final: bool) -> None:
        """Not timed."""

    def close(self) -> None:
        """Nothing to release."""


def main() -> None:
    """Run the work given as JSON."""
    work = json.loads(sys.argv[1])
    from acx.runtime import load_tensorflow

    load_tensorflow()
    from acx import __version__, runs

    rows = work["num_envs"] * work["rollout_length"]
    continuous = work["env_id"] != "CartPole-v1"
    bindings = [
        f"total_steps = {rows * work['iterations']}",
        f"Environment.env_id = '{work['env_id']}'",
        f"Environment.num_envs = {work['num_envs']}",
        f"Environment.vectorization = '{work.get('vectorization', 'sync')}'",
        f"Experiment.rollout_length = {work['rollout_length']}",
        f"Agent.policy_head = @{'GaussianHead' if continuous else 'CategoricalHead'}()",
        "Evaluation.final_episodes = 1",
    ]
    if work["algorithm"] == "ppo":
        bindings.append("Experiment.log_every = 1")  # A2C reports every 100 iterations, as in SB3
        bindings.append(f"Learner.epochs = {work['epochs']}")
        bindings.append(f"Learner.minibatch_size = {work['minibatch_size']}")
    bindings += work.get("bindings", [])
    experiment = runs.build([f"experiments/bases/{work['algorithm']}.gin"], bindings)
    clock = Clock()
    experiment.run([clock])
    warm = max(1, len(clock.marks) // 8)
    print_marks(clock.marks, warm, 0, f"acx {__version__}", clock.others_mb)


main()
