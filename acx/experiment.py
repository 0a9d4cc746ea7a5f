"""The experiment: composes the components and runs the loop."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from acx.actors import NumpyNetwork
from acx.agents import Agent
from acx.config import PositiveInt, configurable
from acx.environments.factory import Environment
from acx.errors import ConfigError
from acx.evaluation import Evaluation, EvaluationResult, evaluate
from acx.learner import Learner
from acx.rollouts import Episode, RolloutCollector, Trajectory
from acx.schedules import Progress
from acx.seeding import Stream, episode_seed, generator


@dataclass(frozen=True)
class Report:
    """What observers receive after an iteration that is logged."""

    env_steps: int
    iterations: int
    scalars: dict[str, float]  # by TensorBoard tag
    episodes: Sequence[Episode]  # finished since the last report


class Observer(Protocol):
    """Watches a run. Observers never change it."""

    def on_report(self, report: Report) -> None:
        """An iteration that is logged."""

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """An evaluation during (`final` False) or after training."""

    def close(self) -> None:
        """The run is over, however it ended."""


@dataclass
class _Timer:
    """Seconds spent in each phase since the last report."""

    seconds: dict[str, float] = field(default_factory=lambda: {"collect": 0.0, "update": 0.0})

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - start


@configurable
class Experiment:
    """One training run.

    Args:
      environment: what the agent acts in.
      agent: what is trained.
      learner: how it is trained.
      evaluation: when and how it is evaluated.
      total_steps: the budget in environment steps, all environments together; never exceeded.
      rollout_length: steps of each environment between updates (T).
      log_every: iterations between reports to TensorBoard and the other observers.
      seed: the root of every random stream.
    """

    def __init__(
        self,
        environment: Environment,
        agent: Agent,
        learner: Learner,
        evaluation: Evaluation,
        total_steps: PositiveInt,
        rollout_length: PositiveInt,
        log_every: PositiveInt = 1,
        seed: int = 0,
    ) -> None:
        if seed < 0:
            raise ConfigError(f"Experiment.seed = {seed}: must be 0 or more", parameter="seed")
        self.environment = environment
        self.agent = agent
        self.learner = learner
        self.evaluation = evaluation
        self.total_steps = total_steps
        self.rollout_length = rollout_length
        self.log_every = log_every
        self.seed = seed
        self.rollout_size = (rollout_length, environment.num_envs)
        if total_steps < rollout_length * environment.num_envs:
            raise ConfigError(
                f"Experiment.total_steps = {total_steps} is less than one rollout: "
                f"{rollout_length} steps × {environment.num_envs} environments",
                parameter="total_steps",
            )

    def build(self) -> None:
        """Check the environment, then create networks and optimizers; training can start.

        Raises:
          ConfigError: the parts don't fit together. RunError: the environment misbehaves.
        """
        self.observation_space, self.action_space = self.environment.check()
        shape = self.observation_space.shape
        assert shape is not None
        self.agent.build(shape, self.action_space, generator(self.seed, Stream.WEIGHTS))
        self.learner.build(
            self.agent,
            self.rollout_size,
            generator(self.seed, Stream.SHUFFLING),
            generator(self.seed, Stream.ENTROPY),
        )
        self.actor = NumpyNetwork(self.agent.actor)
        self.actor.load(self.learner.actor_parameters)

    def policy_state(self) -> dict[str, np.ndarray]:
        """What acting needs: the weights and the observation statistics."""
        state = {
            f"parameters/{minimizer.name}": minimizer.parameters
            for minimizer in self.learner.minimizers
        }
        normalizer = self.agent.observation_normalizer
        if normalizer is not None:
            state |= {f"observations/{name}": value for name, value in normalizer.state().items()}
        return state

    def load_policy_state(self, state: dict[str, np.ndarray]) -> None:
        """Take `policy_state` of a run with the same configuration."""
        for minimizer in self.learner.minimizers:
            minimizer.load(state[f"parameters/{minimizer.name}"])
        self.actor.load(self.learner.actor_parameters)
        normalizer = self.agent.observation_normalizer
        if normalizer is not None:
            normalizer.load_state(
                {name: state[f"observations/{name}"] for name in normalizer.state()}
            )

    def run(self, observers: Sequence[Observer] = ()) -> EvaluationResult:
        """Train to the end of the budget, then evaluate.

        Raises:
          RunError: an environment failed or a quantity was not finite.
        """
        environments = self.environment.make(
            self.environment.num_envs,
            lambda i, e: episode_seed(self.seed, Stream.TRAINING_EPISODES, i, e),
        )
        try:
            self.collector = RolloutCollector(
                environments,
                self.agent.policy_head,
                self.actor,
                self.agent.observation_normalizer,
                self.rollout_length,
                generator(self.seed, Stream.ACTIONS),
            )
            self._loop(observers)
            result = self._evaluate(final=True)
            for observer in observers:
                observer.on_evaluation(self.collector.env_steps, result, True)
            return result
        finally:
            self.learner.close()
            environments.close()

    def _loop(self, observers: Sequence[Observer]) -> None:
        rows = self.rollout_size[0] * self.rollout_size[1]
        self._timer = _Timer()
        self._clock = self._started = time.perf_counter()
        self._steps_reported = 0
        self._episodes: list[Episode] = []
        self._sums: dict[str, float] = {}
        next_evaluation = self.evaluation.every
        while self.collector.env_steps + rows <= self.total_steps:
            learned = self.collector.env_steps
            try:
                with self._timer("collect"):
                    trajectory = self.collector.collect()
            finally:
                self._finish(learned, observers)
            self._episodes += trajectory.episodes
            with self._timer("update"):
                self._learn(trajectory, learned)
            steps = self.collector.env_steps
            if next_evaluation is not None and steps >= next_evaluation:
                next_evaluation += self.evaluation.every or 0
                result = self._evaluate(final=False)
                for observer in observers:
                    observer.on_evaluation(steps, result, False)
        self._finish(self.collector.env_steps, observers)

    def _learn(self, trajectory: Trajectory, env_steps: int) -> None:
        """One update; the critic's share may go on while the next rollout is collected."""
        self.learner.update(trajectory, Progress(env_steps, self.learner.iterations))
        self.actor.load(self.learner.actor_parameters)
        normalizer = self.agent.observation_normalizer
        if normalizer is not None:
            normalizer.update(trajectory.raw_observations[trajectory.valid > 0])

    def _finish(self, env_steps: int, observers: Sequence[Observer]) -> None:
        """Complete the last update and report it."""
        iterations = self.learner.iterations
        if iterations == 0:
            return
        with self._timer("update"):
            metrics = self.learner.finish()
        for name, value in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        if iterations % self.log_every:
            return
        metrics = {name: total / self.log_every for name, total in self._sums.items()}
        self._sums = {}
        report = Report(env_steps, iterations, self._scalars(env_steps, metrics), self._episodes)
        self._episodes, self._timer = [], _Timer()
        for observer in observers:
            observer.on_report(report)

    def _scalars(self, env_steps: int, metrics: dict[str, float]) -> dict[str, float]:
        """Stable-Baselines3's tags, so that runs of both overlay in TensorBoard."""
        now = time.perf_counter()
        scalars: dict[str, float] = {}
        recent = self.collector.statistics.recent
        if recent:
            returns = np.array([episode.episode_return for episode in recent])
            scalars["rollout/ep_rew_mean"] = float(returns.mean())
            scalars["rollout/ep_rew_min"] = float(returns.min())
            scalars["rollout/ep_rew_max"] = float(returns.max())
            scalars["rollout/ep_len_mean"] = float(np.mean([e.length for e in recent]))
        scalars["rollout/episodes"] = self.collector.statistics.finished
        scalars["time/fps"] = (env_steps - self._steps_reported) / (now - self._clock)
        scalars["time/iterations"] = self.learner.iterations
        scalars["time/total_timesteps"] = env_steps
        scalars["time/time_elapsed"] = now - self._started
        for phase, seconds in self._timer.seconds.items():
            scalars[f"time/{phase}_s"] = seconds
        scalars |= {f"train/{name}": value for name, value in metrics.items()}
        scalars.setdefault("train/entropy_loss", -metrics["entropy"])
        scalars["train/n_updates"] = self.learner.minimizers[0].optimizer_steps
        for minimizer in self.learner.minimizers:
            suffix = "" if minimizer is self.learner.minimizers[0] else f"_{minimizer.name}"
            scalars[f"train/learning_rate{suffix}"] = self.learner.last_rates[minimizer.name]
        self._clock, self._steps_reported = now, env_steps
        return scalars

    def _evaluate(self, final: bool) -> EvaluationResult:
        settings = self.evaluation
        return evaluate(
            self.environment,
            self.agent.policy_head,
            self.actor,
            self.agent.observation_normalizer,
            settings.final_episodes if final else settings.episodes,
            self.seed,
            Stream.FINAL_EVALUATION_EPISODES if final else Stream.EVALUATION_EPISODES,
        )
