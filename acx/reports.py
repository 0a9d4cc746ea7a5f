"""What observers receive, and how it is gathered from the loop."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from acx.actors import NumpyNetwork
from acx.evaluation import EvaluationResult
from acx.learner import Learner
from acx.rollouts import Episode, EpisodeStatistics, episodes_array, episodes_list
from acx.states import State


@dataclass(frozen=True)
class Report:
    """One or more iterations, summed up."""

    env_steps: int
    iterations: int
    scalars: dict[str, float]  # by TensorBoard tag
    episodes: Sequence[Episode]  # finished since the last report


class Observer(Protocol):
    """Watches a run. Observers never change it."""

    def on_report(self, report: Report) -> None:
        """Iterations were completed."""

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """An evaluation during (`final` False) or after training."""

    def close(self) -> None:
        """The run is over, however it ended."""


class Reporter:
    """Averages metrics over the iterations between reports, and keeps the time.

    Tags are Stable-Baselines3's, so that runs of both overlay in TensorBoard.
    """

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._count = 0
        self._episodes: list[Episode] = []
        self._recent: list[Episode] = []
        self._finished = 0
        self._probed: dict[str, float] = {}
        self._seconds = {"collect": 0.0, "update": 0.0, "evaluate": 0.0, "report": 0.0}
        self._started = self._last = self._now = time.perf_counter()
        self._last_steps = 0

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the block's duration towards 'collect', 'update', 'evaluate' or 'report'."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[phase] += time.perf_counter() - start

    def start_at(self, env_steps: int) -> None:
        """Steps before this one were another process's."""
        self._last_steps = env_steps

    def add_episodes(self, episodes: Sequence[Episode], statistics: EpisodeStatistics) -> None:
        """Note a rollout's finished episodes, before the next rollout finishes more."""
        self._episodes += episodes
        self._recent, self._finished = list(statistics.recent), statistics.finished
        self._now = time.perf_counter()

    def add_probed(self, scalars: dict[str, float]) -> None:
        """Note what is measured now and then, for the next report."""
        self._probed = scalars

    def add_metrics(self, metrics: dict[str, float]) -> None:
        """Note the metrics of one update."""
        for name, value in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        self._count += 1

    def report(self, env_steps: int, learner: Learner) -> Report:
        """Sum up what was noted since the last report, and start anew."""
        metrics = {name: total / self._count for name, total in self._sums.items()}
        scalars = {
            **_episode_scalars(self._recent, self._finished),
            **self._time_scalars(env_steps, learner.iterations),
            **{f"train/{name}": value for name, value in metrics.items()},
            "train/n_updates": learner.minimizers[0].optimizer_steps,
            **self._probed,
        }
        scalars.setdefault("train/entropy_loss", -metrics["entropy"])
        for minimizer in learner.minimizers:
            suffix = "" if minimizer is learner.minimizers[0] else f"_{minimizer.name}"
            scalars[f"train/learning_rate{suffix}"] = learner.last_rates[minimizer.name]
        report = Report(env_steps, learner.iterations, scalars, self._episodes)
        self._sums, self._count, self._episodes, self._probed = {}, 0, [], {}
        return report

    def _time_scalars(self, env_steps: int, iterations: int) -> dict[str, float]:
        now = self._now  # one moment of each iteration: its rollout is complete
        scalars = {
            "time/fps": (env_steps - self._last_steps) / (now - self._last),
            "time/iterations": iterations,
            "time/total_timesteps": env_steps,
            "time/time_elapsed": now - self._started,
            **{f"time/{phase}_s": seconds for phase, seconds in self._seconds.items()},
        }
        self._last, self._last_steps = now, env_steps
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        return scalars

    def state(self) -> State:
        """What was noted since the last report."""
        return {
            "sums": np.array(json.dumps(self._sums)),
            "count": np.asarray(self._count),
            "episodes": episodes_array(self._episodes),
        }

    def load_state(self, state: State) -> None:
        """Go on from `state()`; clocks start anew."""
        self._sums = json.loads(str(state["sums"]))
        self._count = int(state["count"])
        self._episodes = episodes_list(state["episodes"])


PROBES = 50  # a run, spread evenly: what costs more than a report's share is measured then
ROWS_OF_PROBE = 64


def probe_due(iteration: int, log_every: int, iterations: int) -> bool:
    """Whether iteration number `iteration` (from 1) of so many is probed: it is one with a report.

    A function of these numbers alone, so that a resumed run probes the same iterations.
    """
    index, rest = divmod(iteration, log_every)
    return rest == 0 and (index - 1) % max(iterations // log_every // PROBES, 1) == 0


def idle_units(network: NumpyNetwork, observations: np.ndarray) -> float:
    """The share of hidden units whose output is the same, within 0.001, for all observations [B].

    Dead ReLUs and saturated tanh units alike: no gradient passes through them.
    """
    ranges = [np.ptp(layer, axis=0) for layer in network.hidden(observations)]
    return float(np.mean(np.concatenate(ranges) < 1e-3)) if ranges else 0.0


def _episode_scalars(recent: Sequence[Episode], finished: int) -> dict[str, float]:
    """Of the last 100 finished episodes; before the first has finished there is nothing to say."""
    scalars: dict[str, float] = {"rollout/episodes": finished}
    if recent:
        returns = np.array([episode.episode_return for episode in recent])
        scalars["rollout/ep_rew_mean"] = float(returns.mean())
        scalars["rollout/ep_rew_min"] = float(returns.min())
        scalars["rollout/ep_rew_max"] = float(returns.max())
        lengths = [episode.length for episode in recent]
        scalars["rollout/ep_len_mean"] = float(np.mean(lengths))
    return scalars
