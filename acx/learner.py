"""The learner: from a trajectory to new weights, in compiled TensorFlow.

One iteration, in order:

  1. `UpdateProgram.prepare`  values, old log-probabilities, advantages and returns of the rollout
  2. `Minimizer.run`          epochs over shuffled minibatches for the actor, and for the critic
  3. `Learner.finish`         waits for the critic; metrics

Actor and critic are separate programs on separate weights, so they run on two cores, and a critic
that takes longer goes on while the next rollout is collected: acting needs no values. Both see only
what step 1 computed, so the result is the same as one after the other. Where there is a single
gradient step (A2C), all of it is one program: there, calls cost more than what they compute.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import tensorflow as tf

from acx.actors import NumpyNetwork
from acx.advantages import Advantage
from acx.agents import Agent
from acx.compilation import CompiledFunction
from acx.config import NonNegative, Positive, PositiveInt, configurable
from acx.errors import ConfigError, NonFiniteError
from acx.layouts import Layout
from acx.minimizer import GOOD, Minimizer
from acx.objectives import CriticLoss, PolicyObjective
from acx.optimizers import ClippedOptimizer
from acx.program import UpdateProgram
from acx.rollouts import Trajectory
from acx.schedules import Progress, Schedule, value_at
from acx.seeding import generator_state, load_generator_state
from acx.states import State, merged, part

# How long an update waits for the critic, as a share of the actor's time. Most often it is about as
# fast as the actor; a thread that ends later holds up the steps of the next rollout several times.
PATIENCE = 0.3


@configurable
class Learner:
    """Turns trajectories into gradient steps.

    Args:
      advantage: the advantage estimator.
      policy_objective: the actor's loss.
      critic_loss: the critic's loss.
      actor_optimizer: steps the actor, or everything where the agent shares a torso.
      critic_optimizer: steps the critic; unused (None) with a shared torso.
      epochs: passes over each rollout.
      minibatch_size: rows of a gradient step; None is the whole rollout. Must divide T·N.
      entropy_coef: weight of the entropy bonus; a number or schedule.
      value_coef: weight of the critic's loss where a torso is shared.
      reward_scale: factor on the rewards that are learned from; reported returns stay raw.
      normalize_advantages: to mean 0 and variance 1 over the rollout.
    """

    def __init__(
        self,
        advantage: Advantage,
        policy_objective: PolicyObjective,
        critic_loss: CriticLoss,
        actor_optimizer: ClippedOptimizer,
        critic_optimizer: ClippedOptimizer | None,
        epochs: PositiveInt = 1,
        minibatch_size: PositiveInt | None = None,
        entropy_coef: NonNegative | Schedule = 0.0,
        value_coef: Positive = 0.5,
        reward_scale: Positive = 1.0,
        normalize_advantages: bool = False,
    ) -> None:
        self.advantage = advantage
        self.policy_objective = policy_objective
        self.critic_loss = critic_loss
        self.actor_optimizer = actor_optimizer
        self.critic_optimizer = critic_optimizer
        self.epochs = epochs
        self.minibatch_size = minibatch_size
        self.entropy_coef = entropy_coef
        self.value_coef = value_coef
        self.reward_scale = reward_scale
        self.normalize_advantages = normalize_advantages
        self.last_rates: dict[str, float] = {}
        self.uses_entropy = isinstance(entropy_coef, Schedule) or entropy_coef > 0

    def build(
        self,
        agent: Agent,
        rollout_size: tuple[int, int],
        shuffling: np.random.Generator,
        entropy: np.random.Generator,
        previous: "Learner | None" = None,
    ) -> None:
        """Create optimizers and programs for rollouts of (T, N).

        A `previous` learner of the same structure, used no more, gives its compiled programs.

        Raises:
          ConfigError: minibatches don't divide the rollout, or an optimizer is missing.
        """
        self.agent = agent
        self.shuffling = shuffling
        self.entropy = entropy
        self.rows = rollout_size[0] * rollout_size[1]
        size = self.minibatch_size or self.rows
        if self.rows % size:
            raise ConfigError(
                f"Learner.minibatch_size = {size} must divide the rollout: "
                f"{rollout_size[0]} steps × {rollout_size[1]} environments = {self.rows} rows",
                "Learner",
                "minibatch_size",
            )
        self._in_order = np.tile(np.arange(self.rows), self.epochs)
        self.iterations = 0
        self.program = UpdateProgram(
            agent,
            self.advantage,
            self.policy_objective,
            self.critic_loss,
            rollout_size,
            self.normalize_advantages,
            self.uses_entropy,
        )
        self.minimizers: list[Minimizer] = [
            Minimizer(
                name,
                vector,
                optimizer,
                losses,
                self.program.columns,
                (self.epochs * self.rows // size, size),
                list(self._hyperparameters(optimizer, Progress())),
                None if previous is None else previous.minimizers[i],
            )
            for i, ((name, optimizer, losses), vector) in enumerate(
                zip(self._parts(), agent.networks, strict=True)
            )
        ]
        self.values = NumpyNetwork(agent.critic)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="critic")
        self._pending: Future[dict[str, float]] | None = None
        if previous is not None:
            self._compiled: CompiledFunction = previous._compiled
            self.program.report_names = previous.program.report_names
            return
        rollout = [self.program.layout.size, len(self._settings())]
        if self._at_once:
            own = [len(minimizer.floats) for minimizer in self.minimizers]
            self._floats = Layout([(size,) for size in [*rollout, *own]])
            self._integers = Layout([minimizer.integers.shape for minimizer in self.minimizers])
            self._compiled = CompiledFunction(
                self._update_at_once,
                tf.TensorSpec((self._floats.size,), tf.float32),
                tf.TensorSpec((self._integers.size,), tf.int32),
            )
        else:
            self._compiled = CompiledFunction(
                self._prepare, tf.TensorSpec((sum(rollout),), tf.float32)
            )
            for minimizer in self.minimizers:
                minimizer.compile(self.rows)

    @property
    def _at_once(self) -> bool:
        """A single small gradient step costs less than the calls around it: make it one call."""
        return self.minimizers[0].minibatches[0] == 1

    def _prepare(self, rollout: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        size = self.program.layout.size
        return self.program.prepare(
            self.minimizers[0].variable.value,
            self.minimizers[-1].variable.value,
            rollout[:size],
            rollout[size:],
        )

    def _update_at_once(self, floats: tf.Tensor, integers: tf.Tensor) -> tf.Tensor:
        """Everything in one program: the metrics, then what each minimizer returns.

        Where one of them failed, all weights are left as they were.
        """
        data, settings, *own_floats = self._floats.split(floats)
        batch, report = self._prepare(tf.concat([data, settings], axis=0))
        inputs = zip(self.minimizers, self._integers.split(integers), own_floats, strict=True)
        steps = [minimizer.minimize(batch, *numbers) for minimizer, *numbers in inputs]
        good = tf.reduce_all(tf.stack([out[GOOD] for out, _ in steps]) > 0)
        for minimizer, (_, before) in zip(self.minimizers, steps, strict=True):
            for variable, old in zip(minimizer.optimizer.state, before, strict=True):
                variable.assign(tf.where(good, variable.value, old))
        return tf.concat([report, *(out for out, _ in steps)], axis=0)

    def _parts(self) -> list[tuple[str, ClippedOptimizer, Any]]:
        if self.agent.shares_torso:
            return [("agent", self.actor_optimizer, self.program.joint_losses)]
        if self.critic_optimizer is None:
            raise ConfigError(
                "Learner.critic_optimizer = None, but the critic has a torso of its own to train",
                "Learner",
                "critic_optimizer",
            )
        return [
            ("actor", self.actor_optimizer, self.program.actor_losses),
            ("critic", self.critic_optimizer, self.program.critic_losses),
        ]

    @property
    def actor_parameters(self) -> np.ndarray:
        """The flat vector that holds the actor's weights, current after `update`."""
        return self.minimizers[0].parameters

    def update(self, trajectory: Trajectory, progress: Progress) -> None:
        """Learn from one trajectory. The actor's weights are new when this returns; the critic's
        may be still at work: `finish` waits for them.

        Raises:
          NonFiniteError: a loss or gradient is not finite; all weights are as before.
        """
        assert self._pending is None, "finish() comes before the next update()"
        trajectory.learned_rewards[:] = self._scaled_rewards(trajectory)
        trajectory.final_values[:] = self._final_values(trajectory)
        rollout = [trajectory.data, np.array(self._settings(), np.float32)]
        for minimizer in self.minimizers:
            minimizer.pack(*self._inputs(minimizer, progress))
        self.iterations += 1
        if self._at_once:
            floats = np.concatenate([*rollout, *(m.floats for m in self.minimizers)])
            integers = np.concatenate([m.integers for m in self.minimizers])
            (out,) = self._compiled(floats, integers)
            self._absorb(out.numpy())
        else:
            batch, report = self._compiled(np.concatenate(rollout))
            if len(self.minimizers) > 1:
                self._pending = self._worker.submit(self.minimizers[1].run, batch)
            self._report = self._named(report.numpy())
            try:
                begun = time.perf_counter()
                self._report.update(self.minimizers[0].run(batch))
                self._wait(PATIENCE * (time.perf_counter() - begun))
            except NonFiniteError:
                if self._pending is not None:
                    self._pending.exception()  # only waits
                    self._pending = None
                self._undo()
                raise

    def _wait(self, seconds: float) -> None:
        """Let the critic end, for so long."""
        if self._pending is not None:
            wait([self._pending], seconds)

    def _absorb(self, out: np.ndarray) -> None:
        """Take over what `_update_at_once` returned: both networks' steps, or neither's."""
        self._report = self._named(out)
        start = len(self._report)
        parts = []
        for minimizer in self.minimizers:
            parts.append((minimizer, out[start : start + minimizer.output_size]))
            start += minimizer.output_size
        failed = [part for part in parts if not part[1][GOOD]]
        self.iterations -= len(failed) > 0
        for minimizer, own in failed or parts:
            self._report.update(minimizer.absorb(own))

    def _undo(self) -> None:
        """Take back the last `update`, of actor and critic."""
        for minimizer in self.minimizers:
            minimizer.undo()
        self.iterations -= 1

    def _named(self, report: np.ndarray) -> dict[str, float]:
        names = self.program.report_names
        return dict(zip(names, report[: len(names)].tolist(), strict=True))

    def finish(self) -> dict[str, float]:
        """Wait for the critic; the metrics of the last `update`, by TensorBoard tag.

        Raises:
          NonFiniteError: the critic's loss or gradient is not finite; all weights, the actor's too,
            are as before the last `update`.
        """
        if self._pending is not None:
            pending, self._pending = self._pending, None
            try:
                self._report.update(pending.result())
            except NonFiniteError:
                self._undo()
                raise
        if self.agent.value_normalizer is not None:
            self.agent.value_normalizer.update(
                self._report["return_mean"], self._report["return_std"]
            )
        return self._report

    def close(self) -> None:
        """End the critic's thread."""
        self._worker.shutdown(wait=True)

    def state(self) -> State:
        """Everything that the next update depends on. Call `finish` first."""
        assert self._pending is None, "finish() comes before state()"
        return {
            "iterations": np.asarray(self.iterations),
            "rng/shuffling": generator_state(self.shuffling),
            "rng/entropy": generator_state(self.entropy),
            **merged({m.name: m.state() for m in self.minimizers}),
        }

    def load_state(self, state: State) -> None:
        """Go on from `state()`."""
        self.iterations = int(state["iterations"])
        load_generator_state(self.shuffling, state["rng/shuffling"])
        load_generator_state(self.entropy, state["rng/entropy"])
        for minimizer in self.minimizers:
            minimizer.load_state(part(state, minimizer.name))

    def sync_models(self) -> None:
        """Write the weights into the Keras models."""
        for minimizer in self.minimizers:
            minimizer.vector.assign(minimizer.parameters)

    def _settings(self) -> list[float]:
        """What `UpdateProgram.prepare` takes beside the rollout."""
        normalizer = self.agent.value_normalizer
        moments = () if normalizer is None else normalizer.moments
        return [self.reward_scale, *moments, *self.advantage.hyperparameters().values()]

    def _scaled_rewards(self, trajectory: Trajectory) -> np.ndarray:
        """Normalized where the agent normalizes; the reward scale is applied when compiled."""
        normalizer = self.agent.reward_normalizer
        if normalizer is None:
            return trajectory.rewards
        done = np.maximum(trajectory.terminated, trajectory.truncated)
        normalizer.update(trajectory.rewards, done, trajectory.valid, self.advantage.gamma)
        return normalizer.normalize(trajectory.rewards)

    def _final_values(self, trajectory: Trajectory) -> np.ndarray:
        """The critic's output for the final observation of truncated episodes, else 0: [T, N]."""
        values = np.zeros_like(trajectory.rewards)
        if len(trajectory.final_observations):
            self.values.load(self.minimizers[-1].parameters)
            values[trajectory.truncated > 0] = self.values(trajectory.final_observations)
        return values

    def _hyperparameters(self, optimizer: ClippedOptimizer, progress: Progress) -> dict[str, float]:
        """What the losses take as inputs, so that a sweep needs no new program."""
        objective, critic_loss = self.policy_objective, self.critic_loss
        return {
            "clip_norm": optimizer.clip_norm,
            "kl_limit": np.inf if objective.target_kl is None else 1.5 * objective.target_kl,
            "entropy_coef": float(value_at(self.entropy_coef, progress)),
            "value_coef": self.value_coef,
            **{f"policy/{k}": v for k, v in objective.hyperparameters(progress).items()},
            **{f"critic/{k}": v for k, v in critic_loss.hyperparameters(progress).items()},
        }

    def _inputs(self, minimizer: Minimizer, progress: Progress) -> tuple[Any, ...]:
        """What `Minimizer.pack` takes."""
        count, size = minimizer.minibatches
        if size == self.rows:
            order = self._in_order  # where it can't matter
        else:
            epochs = [self.shuffling.permutation(self.rows) for _ in range(self.epochs)]
            order = np.concatenate(epochs)
        optimizer = minimizer.optimizer
        rates = optimizer.factory.learning_rates(minimizer.optimizer_steps, count, progress)
        seed = int(self.entropy.integers(2**31)) if self.uses_entropy else 0
        self.last_rates[minimizer.name] = float(rates[-1])
        return order, seed, rates, self._hyperparameters(optimizer, progress)
