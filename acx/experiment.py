"""The experiment: composes the components and runs the loop."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from acx.actors import NumpyNetwork
from acx.agents import Agent
from acx.config import NonNegative, PositiveInt, configurable
from acx.environments.factory import Environment
from acx.errors import ConfigError, NonFiniteError
from acx.evaluation import Evaluation, EvaluationResult, evaluate
from acx.learner import Learner
from acx.recovery import Policy, Recovery
from acx.reports import ROWS_OF_PROBE, Observer, Reporter, idle_units, probe_due
from acx.rollouts import RolloutCollector, Trajectory
from acx.schedules import Progress
from acx.seeding import Stream, episode_seed, generator
from acx.states import State, merged, part

SaveCheckpoint = Callable[[int, State], None]
SaveBest = Callable[[State], None]


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
      on_nonfinite: what follows an iteration in which an observation, reward, loss or gradient was
        NaN or infinite: 'halt' ends the run, 'skip' drops the iteration, 'rollback' also goes back
        to weights of a few iterations before (see `Recovery`).
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
        on_nonfinite: Policy = "halt",
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
        self.recovery = Recovery(on_nonfinite)
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
        save_best: SaveBest | None = None,
        warn: Callable[[str], None] = warnings.warn,
    ) -> EvaluationResult:
        """Train to the end of the budget, then evaluate.

        Args:
          observers: are told of every report and evaluation.
          save: takes (environment steps, state) whenever a checkpoint is due.
          resume_from: a state that `save` received, of the same configuration.
          save_best: takes the state whenever an evaluation during training is the best so far.
          warn: is told of iterations that were dropped.

        Raises:
          RunError: an environment failed, or a quantity was not finite and `on_nonfinite` is
            'halt' or was of no avail.
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
            if not self.recovery.snapshot:
                self.recovery.keep(self._training_state)
            self._loop(observers, save, save_best, warn)
            result = self._evaluate(final=True)
            for observer in observers:
                observer.on_evaluation(self.collector.env_steps, result, True)
            return result
        finally:
            self.learner.close()
            environments.close()

    def _loop(
        self,
        observers: Sequence[Observer],
        save: SaveCheckpoint | None,
        save_best: SaveBest | None,
        warn: Callable[[str], None],
    ) -> None:
        last_save, going = time.monotonic(), True
        while going:
            improved = False
            try:
                going = self.collector.env_steps + self.rows <= self.total_steps
                if going:
                    improved = self._iterate(observers)
                overdue = time.monotonic() - last_save >= self.checkpoint_seconds
                due = save is not None and (overdue or improved or self.stop_requested)
                if due or not going or self.recovery.due(self.learner.iterations):
                    self._finish(self.collector.env_steps, observers)
            except NonFiniteError as error:
                self._recover(error, warn)
                going = True
                continue
            if self.recovery.due(self.learner.iterations):
                self.recovery.keep(self._training_state)
            if save is not None and (due or not going):
                state = self.state()
                if improved and save_best is not None:
                    save_best(state)  # first: a run that resumes from `save`'s has it already
                save(self.collector.env_steps, state)
                last_save = time.monotonic()
            if self.stop_requested and going:
                raise Stopped

    def _iterate(self, observers: Sequence[Observer]) -> bool:
        """Collect, learn, evaluate where due; returns whether that was the best evaluation yet."""
        learned = self.collector.env_steps
        try:
            with self.reporter.timed("collect"):
                trajectory = self.collector.collect()
        finally:
            self._finish(learned, observers)
        self.reporter.add_episodes(trajectory.episodes, self.collector.statistics)
        with self.reporter.timed("update"):
            self._learn(trajectory, learned)
        return self._evaluate_if_due(learned, observers)

    def _recover(self, error: NonFiniteError, warn: Callable[[str], None]) -> None:
        """Give up the iterations that the error concerns, as `on_nonfinite` says."""
        warn(self.recovery.count(error))
        if self.recovery.policy == "rollback":
            self.load_training_state(self.recovery.snapshot)
        self.actor.load(self.learner.actor_parameters)
        self._reported = self.learner.iterations
        self.collector.restart()

    def _probe(self, trajectory: Trajectory) -> None:
        """Measure the networks that collected a rollout, now and then."""
        planned = self.total_steps // self.rows
        if not probe_due(self.learner.iterations + 1, self.log_every, planned):
            return
        observations = trajectory.observations.reshape(
            self.rows, *trajectory.observations.shape[2:]
        )
        seen = observations[:: max(self.rows // ROWS_OF_PROBE, 1)]
        self.learner.values.load(self.learner.minimizers[-1].parameters)
        self.reporter.add_probed(
            {
                "train/idle_units_actor": idle_units(self.actor, seen),
                "train/idle_units_critic": idle_units(self.learner.values, seen),
            }
        )

    def _learn(self, trajectory: Trajectory, env_steps: int) -> None:
        """One update; the critic's share may go on while the next rollout is collected."""
        self._probe(trajectory)
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
        self.recovery.succeeded()
        if self._reported % self.log_every == 0:
            report = self.reporter.report(env_steps, self.learner)
            report.scalars.update(self.recovery.scalars())
            with self.reporter.timed("report"):
                for observer in observers:
                    observer.on_report(report)

    def _evaluate_if_due(self, before: int, observers: Sequence[Observer]) -> bool:
        """Evaluate where the last rollout crossed a multiple of `Evaluation.every`.

        Returns:
          Whether the mean return is the highest yet.
        """
        every, steps = self.evaluation.every, self.collector.env_steps
        if every is None or steps // every == before // every:
            return False
        self._finish(steps, observers)
        with self.reporter.timed("evaluate"):
            result = self._evaluate(final=False)
        for observer in observers:
            observer.on_evaluation(steps, result, False)
        improved = result.mean > self.best_evaluation
        self.best_evaluation = max(self.best_evaluation, result.mean)
        return improved

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
        return {
            "best_evaluation": np.asarray(self.best_evaluation),
            **self._training_state(),
            **merged(
                {
                    "collector": self.collector.state(),
                    "reporter": self.reporter.state(),
                    "recovery": self.recovery.state(),
                }
            ),
        }

    def _training_state(self) -> State:
        """What learning changes: weights, optimizers, normalizers, the learner's streams."""
        return merged(
            {
                "learner": self.learner.state(),
                **{name: normalizer.state() for name, normalizer in self._normalizers().items()},
            }
        )

    def load_training_state(self, state: State) -> None:
        """Take from `state()` what learning changes: all that acting needs, among other things."""
        self.learner.load_state(part(state, "learner"))
        self.actor.load(self.learner.actor_parameters)
        for name, normalizer in self._normalizers().items():
            normalizer.load_state(part(state, name))

    def _normalizers(self) -> dict[str, Any]:
        """Those that the agent has, by the names that their statistics have in a checkpoint."""
        normalizers = {
            "normalizer/observations": self.agent.observation_normalizer,
            "normalizer/rewards": self.agent.reward_normalizer,
            "normalizer/values": self.agent.value_normalizer,
        }
        return {name: found for name, found in normalizers.items() if found is not None}

    def load_state(self, state: State) -> bool:
        """Go on from `state()`; returns whether the open episodes could be continued."""
        self.load_training_state(state)
        self.recovery.load_state(part(state, "recovery"))
        self.best_evaluation = float(state["best_evaluation"])
        self.reporter.load_state(part(state, "reporter"))
        exact = self.collector.load_state(part(state, "collector"))
        self.reporter.start_at(self.collector.env_steps)
        self._reported = self.learner.iterations
        return exact
