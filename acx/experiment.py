"""The experiment: composes the components and runs the loop."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from acx.actors import NumpyNetwork
from acx.agents import Agent
from acx.config import NonNegative, PositiveInt, configurable
from acx.environments.factory import Environment
from acx.errors import ConfigError
from acx.evaluation import Evaluation, EvaluationResult, evaluate
from acx.learner import Learner
from acx.reports import Observer, Reporter
from acx.rollouts import RolloutCollector, Trajectory
from acx.schedules import Progress
from acx.seeding import Stream, episode_seed, generator
from acx.states import State, merged, part

SaveCheckpoint = Callable[[int, State], None]


class Stopped(Exception):
    """The run was asked to stop, and has saved itself."""


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
      checkpoint_seconds: seconds between checkpoints; when they are taken changes no result.
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
        checkpoint_seconds: NonNegative = 30.0,
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
        self.checkpoint_seconds = checkpoint_seconds
        self.seed = seed
        self.rows = rollout_length * environment.num_envs
        self.stop_requested = False
        if total_steps < self.rows:
            raise ConfigError(
                f"Experiment.total_steps = {total_steps} is less than one rollout: "
                f"{rollout_length} steps × {environment.num_envs} environments = {self.rows}",
                parameter="total_steps",
            )

    def build(self, previous: Learner | None = None) -> None:
        """Check the environment, then create networks and optimizers; training can start.

        Args:
          previous: the learner of an experiment that is over and had the same structure; its
            compiled programs are taken over.

        Raises:
          ConfigError: the parts don't fit together. RunError: the environment misbehaves.
        """
        self.observation_space, self.action_space = self.environment.check()
        shape = self.observation_space.shape
        assert shape is not None
        self.agent.build(shape, self.action_space, generator(self.seed, Stream.WEIGHTS))
        self.learner.build(
            self.agent,
            (self.rollout_length, self.environment.num_envs),
            generator(self.seed, Stream.SHUFFLING),
            generator(self.seed, Stream.ENTROPY),
            previous,
        )
        self.actor = NumpyNetwork(self.agent.actor)
        self.actor.load(self.learner.actor_parameters)
        self.best_evaluation = -np.inf

    def run(
        self,
        observers: Sequence[Observer] = (),
        save: SaveCheckpoint | None = None,
        resume_from: State | None = None,
    ) -> EvaluationResult:
        """Train to the end of the budget, then evaluate.

        Args:
          observers: are told of every report and evaluation.
          save: takes (environment steps, state) whenever a checkpoint is due.
          resume_from: a state that `save` received, of the same configuration.

        Raises:
          RunError: an environment failed or a quantity was not finite.
          Stopped: `stop_requested` was set; a checkpoint of the last iteration was saved.
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
            self.reporter = Reporter()
            self._reported = self.learner.iterations
            self.resumed_exactly = resume_from is None or self.load_state(resume_from)
            self._loop(observers, save)
            result = self._evaluate(final=True)
            for observer in observers:
                observer.on_evaluation(self.collector.env_steps, result, True)
            return result
        finally:
            self.learner.close()
            environments.close()

    def _loop(self, observers: Sequence[Observer], save: SaveCheckpoint | None) -> None:
        last_save = time.monotonic()
        while self.collector.env_steps + self.rows <= self.total_steps:
            learned = self.collector.env_steps
            try:
                with self.reporter.timed("collect"):
                    trajectory = self.collector.collect()
            finally:
                self._finish(learned, observers)
            self.reporter.add_episodes(trajectory.episodes, self.collector.statistics)
            with self.reporter.timed("update"):
                self._learn(trajectory, learned)
            self._evaluate_if_due(learned, observers)
            overdue = time.monotonic() - last_save >= self.checkpoint_seconds
            if save is not None and (overdue or self.stop_requested):
                self._finish(self.collector.env_steps, observers)
                save(self.collector.env_steps, self.state())
                last_save = time.monotonic()
            if self.stop_requested:
                raise Stopped
        self._finish(self.collector.env_steps, observers)
        if save is not None:
            save(self.collector.env_steps, self.state())

    def _learn(self, trajectory: Trajectory, env_steps: int) -> None:
        """One update; the critic's share may go on while the next rollout is collected."""
        self.learner.update(trajectory, Progress(env_steps, self.learner.iterations))
        self.actor.load(self.learner.actor_parameters)
        normalizer = self.agent.observation_normalizer
        if normalizer is not None:
            normalizer.update(trajectory.raw_observations[trajectory.valid > 0])

    def _finish(self, env_steps: int, observers: Sequence[Observer]) -> None:
        """Complete the last update, if that is not done, and report it."""
        if self.learner.iterations == self._reported:
            return
        self._reported = self.learner.iterations
        with self.reporter.timed("update"):
            self.reporter.add_metrics(self.learner.finish())
        if self._reported % self.log_every == 0:
            report = self.reporter.report(env_steps, self.learner)
            for observer in observers:
                observer.on_report(report)

    def _evaluate_if_due(self, before: int, observers: Sequence[Observer]) -> None:
        """Evaluate where the last rollout crossed a multiple of `Evaluation.every`."""
        every, steps = self.evaluation.every, self.collector.env_steps
        if every is None or steps // every == before // every:
            return
        self._finish(steps, observers)
        with self.reporter.timed("evaluate"):
            result = self._evaluate(final=False)
        self.best_evaluation = max(self.best_evaluation, result.mean)
        for observer in observers:
            observer.on_evaluation(steps, result, False)

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

    def state(self) -> State:
        """Everything that the rest of the run depends on, as arrays."""
        agent = self.agent
        normalizers = {
            "normalizer/observations": agent.observation_normalizer,
            "normalizer/rewards": agent.reward_normalizer,
        }
        return {
            "best_evaluation": np.asarray(self.best_evaluation),
            **merged(
                {
                    "learner": self.learner.state(),
                    "collector": self.collector.state(),
                    "reporter": self.reporter.state(),
                    **{k: n.state() for k, n in normalizers.items() if n is not None},
                }
            ),
        }

    def load_policy(self, state: State) -> None:
        """Take from a checkpoint what acting needs: weights and observation statistics."""
        self.learner.load_state(part(state, "learner"))
        self.actor.load(self.learner.actor_parameters)
        if self.agent.observation_normalizer is not None:
            self.agent.observation_normalizer.load_state(part(state, "normalizer/observations"))

    def load_state(self, state: State) -> bool:
        """Go on from `state()`; returns whether the open episodes could be continued."""
        self.load_policy(state)
        if self.agent.reward_normalizer is not None:
            self.agent.reward_normalizer.load_state(part(state, "normalizer/rewards"))
        self.best_evaluation = float(state["best_evaluation"])
        self.reporter.load_state(part(state, "reporter"))
        exact = self.collector.load_state(part(state, "collector"))
        self.reporter.start_at(self.collector.env_steps)
        self._reported = self.learner.iterations
        return exact
