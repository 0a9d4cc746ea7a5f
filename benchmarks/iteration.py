"""Where the time of one iteration goes: PPO on CartPole, 8 environments × 256 steps, 10 epochs.

python -m benchmarks.iteration

Clocks around the parts of a running experiment, a fraction of a microsecond each; medians over its
iterations. The last rows set the gradient steps beside what the processor can do: floating-point
operations of a minibatch, and the same operations as matrix products in NumPy on one core.
"""

import functools
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from absl import app

from benchmarks.pages import PERFORMANCE, markdown, put, show

NUM_ENVS, LENGTH, EPOCHS, SIZE, WIDTH, ITERATIONS = 8, 256, 10, 256, 64, 60
STEPS = EPOCHS * NUM_ENVS * LENGTH // SIZE  # gradient steps of each network
WARM = 10


class Clocks:
    """Seconds spent in functions, by name and iteration."""

    def __init__(self) -> None:
        self.iterations: list[dict[str, float]] = []
        self.current: dict[str, float] = defaultdict(float)
        self._begun = time.perf_counter()

    def wrap(self, owner: type, method: str, name: str = "") -> None:
        """Time a method under a name; without one, under its object's `name`."""
        function = getattr(owner, method)

        @functools.wraps(function)
        def timed(this: Any, *arguments: Any, **options: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(this, *arguments, **options)
            finally:
                self.current[name or this.name] += time.perf_counter() - begin

        setattr(owner, method, timed)

    def on_report(self, report: Any) -> None:
        """An iteration is over."""
        now = time.perf_counter()
        self.current["iteration"], self._begun = now - self._begun, now
        self.iterations.append(dict(self.current))
        self.current.clear()

    def on_evaluation(self, env_steps: int, result: Any, final: bool) -> None:
        """Not timed."""

    def close(self) -> None:
        """Nothing to release."""

    def median(self, name: str) -> float:
        """Of a part, in microseconds an iteration."""
        return 1e6 * statistics.median(found.get(name, 0.0) for found in self.iterations[WARM:])


def best_of(function: Callable[[], Any], repeats: int = 200) -> float:
    """The shortest of many calls, in microseconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return 1e6 * min(times)


def products() -> tuple[float, float]:
    """A minibatch's matrix products forwards and backwards: operations, microseconds in NumPy."""
    import numpy as np

    rng = np.random.default_rng(0)
    operations = microseconds = 0.0
    for inputs, outputs in ((4, WIDTH), (WIDTH, WIDTH), (WIDTH, 2)):
        x = rng.normal(size=(SIZE, inputs)).astype(np.float32)
        kernel = rng.normal(size=(inputs, outputs)).astype(np.float32)
        gradient = rng.normal(size=(SIZE, outputs)).astype(np.float32)
        calls = [functools.partial(np.dot, x, kernel), functools.partial(np.dot, x.T, gradient)]
        if inputs == WIDTH:  # no gradient is needed of the observations
            calls.append(functools.partial(np.dot, gradient, kernel.T))
        operations += len(calls) * 2 * SIZE * inputs * outputs
        microseconds += sum(map(best_of, calls))
    return operations, microseconds


def main(arguments: list[str]) -> int:
    """Run the experiment and print the table."""
    from acx.runtime import load_tensorflow

    load_tensorflow()
    from acx import runs
    from acx.actors import NumpyNetwork
    from acx.environments.local import LocalVectorEnv
    from acx.environments.vector import VectorEnvironment
    from acx.learner import Learner
    from acx.minimizer import Minimizer
    from acx.policies import CategoricalHead
    from acx.rollouts import RolloutCollector

    clocks = Clocks()
    for owner, method, name in (
        (RolloutCollector, "collect", "collect"),
        (LocalVectorEnv, "step", "environments"),
        (VectorEnvironment, "step", "contract"),
        (NumpyNetwork, "__call__", "network"),
        (CategoricalHead, "sample", "sample"),
        (Learner, "update", "update"),
        (Learner, "_inputs", "inputs"),
        (Learner, "_wait", "wait in update"),
        (Learner, "finish", "wait"),
    ):
        clocks.wrap(owner, method, name)
    clocks.wrap(Minimizer, "run")
    experiment = runs.build(
        ["experiments/bases/ppo.gin"],
        [
            f"total_steps = {NUM_ENVS * LENGTH * ITERATIONS}",
            "Environment.env_id = 'CartPole-v1'",
            f"Environment.num_envs = {NUM_ENVS}",
            f"Experiment.rollout_length = {LENGTH}",
            "Agent.policy_head = @CategoricalHead()",
            f"Learner.epochs = {EPOCHS}",
            f"Learner.minibatch_size = {SIZE}",
            "Evaluation.final_episodes = 1",
            "Experiment.log_every = 1",
        ],
    )
    experiment.run([clocks])

    total, median = clocks.median("iteration"), clocks.median
    stepped = median("environments")
    collect = median("collect")
    acting = median("network"), median("sample")
    contract = median("contract") - stepped
    waited = median("wait in update")
    prepare = median("update") - median("actor") - median("inputs") - waited
    a_row, a_gradient_step = (LENGTH, "a row of 8"), (STEPS, "a gradient step")
    an_env_step, an_iteration = (NUM_ENVS * LENGTH, "an environment step"), (1, "an iteration")
    storing = collect - sum(acting) - median("contract")
    rest = total - collect - median("update") - median("wait")
    header = ("part", "ms an iteration", "share", "µs each")
    rows = [
        [
            name,
            f"{microseconds / 1000:.2f}",
            f"{microseconds / total:.0%}",
            f"{microseconds / count:.2f} {what}",
        ]
        for name, microseconds, (count, what) in (
            ("collect: CartPole's own steps", stepped, an_env_step),
            ("collect: policy network in NumPy", acting[0], a_row),
            ("collect: sampling", acting[1], a_row),
            ("collect: episodes' ends, seeds, replay record", contract, a_row),
            ("collect: storing, statistics", storing, a_row),
            ("update: shuffling, packing", median("inputs"), an_iteration),
            ("update: values, advantages, transfer", prepare, an_iteration),
            ("update: actor's gradient steps", median("actor"), a_gradient_step),
            ("waiting for the critic", waited + median("wait"), an_iteration),
            ("reports and the rest", rest, an_iteration),
            ("whole iteration", total, an_env_step),
            ("second core: critic's gradient steps", median("critic"), a_gradient_step),
        )
    ]
    show(header, rows)
    operations, fastest = products()
    each = median("actor") / STEPS
    limit = (
        f"The actor's gradient step: {operations / 1e6:.1f} million floating-point operations in "
        f"{each:.0f} µs ({operations / each / 1000:.0f} GFLOP/s, with tanh, loss, clip and Adam); "
        f"its matrix products alone, in NumPy: {fastest:.0f} µs "
        f"({operations / fastest / 1000:.0f} GFLOP/s)."
    )
    print(limit)
    put(PERFORMANCE, "iteration", f"{markdown(header, rows)}\n{limit}\n")
    print(f"iteration: {NUM_ENVS * LENGTH / total * 1e6:,.0f} environment steps a second")
    return 0


if __name__ == "__main__":
    app.run(lambda arguments: sys.exit(main(arguments)))
