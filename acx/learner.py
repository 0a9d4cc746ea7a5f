"""The learner: from a trajectory to new weights, in compiled TensorFlow.

One iteration, in order:

  1. `_prepare`            values, old log-probabilities, advantages and returns of the rollout
  2. `Minimizer.run`       epochs over shuffled minibatches for the actor, and for the critic
  3. `Learner.finish`      waits for the critic; metrics

Actor and critic are separate programs on separate weights, so they run on two cores, and the
critic's goes on while the next rollout is collected: acting needs no values. Both see only what
step 1 computed, so the result is the same as one after the other.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from acx.actors import NumpyNetwork
from acx.advantages import Advantage, normalize
from acx.agents import Agent
from acx.config import NonNegative, Positive, PositiveInt, configurable
from acx.errors import ConfigError
from acx.minimizer import Minimizer, Named, Tensors
from acx.objectives import CriticLoss, PolicyObjective, weighted_mean
from acx.optimizers import ClippedOptimizer
from acx.rollouts import Trajectory, trajectory_layout
from acx.schedules import Progress, Schedule, value_at
from acx.seeding import generator_state, load_generator_state
from acx.states import State, merged, part


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
        self.rollout_size = rollout_size
        rows = rollout_size[0] * rollout_size[1]
        size = self.minibatch_size or rows
        if rows % size:
            raise ConfigError(
                f"Learner.minibatch_size = {size} must divide the rollout: "
                f"{rollout_size[0]} steps × {rollout_size[1]} environments = {rows} rows",
                "Learner",
                "minibatch_size",
            )
        self.observation_shape = tuple(agent.actor.model.input_shape[1:])
        action_shape = agent.policy_head.action_shape
        self.columns = {
            "observations": self.observation_shape,
            "actions": action_shape,
            **dict.fromkeys(("old_log_prob", "advantages", "returns", "old_values", "weight"), ()),
        }
        self.minimizers: list[Minimizer] = [
            Minimizer(
                name,
                vector,
                optimizer,
                losses,
                self.columns,
                (self.epochs * rows // size, size),
                list(self._hyperparameters(optimizer, Progress())),
                rows,
                None if previous is None else previous.minimizers[i],
            )
            for i, ((name, optimizer, losses), vector) in enumerate(
                zip(self._parts(), agent.networks, strict=True)
            )
        ]
        self.iterations = 0
        self._report_names: list[str] = []
        self.values = NumpyNetwork(agent.critic)
        if previous is None:
            layout = trajectory_layout(rollout_size, self.observation_shape, action_shape)
            self._prepared = tf.function(
                self._prepare, jit_compile=True, autograph=False
            ).get_concrete_function(
                tf.TensorSpec((layout.size,), tf.float32),
                tf.TensorSpec((1 + len(self.advantage.hyperparameters()),), tf.float32),
            )
        else:
            self._prepared, self._report_names = previous._prepared, previous._report_names
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="critic")
        self._pending: Future[dict[str, float]] | None = None

    def _parts(self) -> list[tuple[str, ClippedOptimizer, Any]]:
        if self.agent.shares_torso:
            return [("agent", self.actor_optimizer, self._joint_losses)]
        if self.critic_optimizer is None:
            raise ConfigError(
                "Learner.critic_optimizer = None, but the critic has a torso of its own to train",
                "Learner",
                "critic_optimizer",
            )
        return [
            ("actor", self.actor_optimizer, self._actor_losses),
            ("critic", self.critic_optimizer, self._critic_losses),
        ]

    @property
    def actor_parameters(self) -> np.ndarray:
        """The flat vector that holds the actor's weights, current after `update`."""
        return self.minimizers[0].parameters

    def update(self, trajectory: Trajectory, progress: Progress) -> None:
        """Learn from one trajectory. The actor's weights are new when this returns; the critic's
        may be still at work: `finish` waits for them.

        Raises:
          RunError: a loss or gradient is not finite; the actor's weights are as before.
        """
        assert self._pending is None, "finish() comes before the next update()"
        trajectory.learned_rewards[:] = self._scaled_rewards(trajectory)
        trajectory.final_values[:] = self._final_values(trajectory)
        settings = [self.reward_scale, *self.advantage.hyperparameters().values()]
        batch, report = self._prepared(
            tf.constant(trajectory.data), tf.constant(np.array(settings, np.float32))
        )
        runs = [(m.run, batch, *self._inputs(m, progress)) for m in self.minimizers]
        if len(runs) > 1:
            self._pending = self._worker.submit(*runs[1])
        run, *inputs = runs[0]
        self._report = dict(zip(self._report_names, report.numpy().tolist(), strict=True))
        self._report.update(run(*inputs))
        self.iterations += 1

    def finish(self) -> dict[str, float]:
        """Wait for the critic; the metrics of the last `update`, by TensorBoard tag.

        Raises:
          RunError: the critic's loss or gradient is not finite; its weights are as before.
        """
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._report.update(pending.result())
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

    def _scaled_rewards(self, trajectory: Trajectory) -> np.ndarray:
        """Normalized where the agent normalizes; the reward scale is applied when compiled."""
        normalizer = self.agent.reward_normalizer
        if normalizer is None:
            return trajectory.rewards
        done = np.maximum(trajectory.terminated, trajectory.truncated)
        normalizer.update(trajectory.rewards, done, trajectory.valid)
        return normalizer.normalize(trajectory.rewards)

    def _final_values(self, trajectory: Trajectory) -> np.ndarray:
        """V(final observation) where an episode was truncated, else 0: [T, N]."""
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
        """What `Minimizer.run` takes after the batch."""
        count, size = minimizer.minibatches
        rows = self.rollout_size[0] * self.rollout_size[1]
        if size == rows:
            order = np.tile(np.arange(rows), self.epochs)  # order can't matter
        else:
            order = np.concatenate([self.shuffling.permutation(rows) for _ in range(self.epochs)])
        optimizer = minimizer.optimizer
        rates = optimizer.factory.learning_rates(minimizer.optimizer_steps, count, progress)
        seed = int(self.entropy.integers(2**31)) if self.uses_entropy else 0
        self.last_rates[minimizer.name] = float(rates[-1])
        return order, seed, rates, self._hyperparameters(optimizer, progress)

    # Everything below is traced into compiled programs.

    def _prepare(self, data: tf.Tensor, settings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The rollout as a matrix of minibatch rows [B, width], and a vector of metrics."""
        agent, (length, num_envs) = self.agent, self.rollout_size
        layout = trajectory_layout(
            self.rollout_size, self.observation_shape, agent.policy_head.action_shape
        )
        (
            observations,
            last_observations,
            actions,
            _,
            terminated,
            truncated,
            valid,
            rewards,
            final_values,
        ) = layout.split(data)
        reward_scale, *hyper = tf.unstack(settings)
        rewards *= reward_scale
        flat = tf.reshape(observations, (-1, *self.observation_shape))
        flat_actions = tf.reshape(actions, (-1, *agent.policy_head.action_shape))

        weights = agent.networks[-1].layout.split(self.minimizers[-1].variable.value)
        seen = tf.concat([flat, last_observations], axis=0)
        all_values = tf.reshape(agent.critic(weights, seen), (length + 1, num_envs))
        values = all_values[:-1]
        advantages = self.advantage.estimate(
            rewards,
            values,
            tf.where(truncated > 0, final_values, all_values[1:]),
            terminated,
            truncated,
            **dict(zip(self.advantage.hyperparameters(), hyper, strict=True)),
        )
        returns = advantages + values
        metrics = _rollout_metrics(values, returns, advantages, rewards, valid)
        if self.normalize_advantages:
            advantages = normalize(advantages, valid)

        weights = agent.networks[0].layout.split(self.minimizers[0].variable.value)
        outputs = agent.actor(weights, flat)
        log_prob = agent.policy_head.log_prob(outputs, flat_actions)
        metrics["entropy"] = -weighted_mean(log_prob, tf.reshape(valid, [-1]))
        metrics |= agent.policy_head.statistics(outputs)
        self._report_names = list(metrics)
        columns = [flat, flat_actions, log_prob, advantages, returns, values, valid]
        rows = [tf.reshape(column, (length * num_envs, -1)) for column in columns]
        return tf.concat(rows, axis=1), tf.stack(list(metrics.values()))

    def _actor_losses(self, weights: Tensors, batch: Named, hyper: Named) -> tuple[Named, Named]:
        head = self.agent.policy_head
        outputs = self.agent.actor(weights, batch["observations"])
        log_prob = head.log_prob(outputs, batch["actions"])
        loss, metrics = self.policy_objective.loss(
            log_prob,
            batch["old_log_prob"],
            batch["advantages"],
            batch["weight"],
            **_own(hyper, "policy"),
        )
        metrics = {"policy_gradient_loss": loss, **metrics}
        if self.uses_entropy:
            seed = tf.stack([hyper["seed"], hyper["step"]])
            entropy = weighted_mean(head.entropy(outputs, seed), batch["weight"])
            loss = loss - hyper["entropy_coef"] * entropy
            metrics["entropy_loss"] = -entropy
        return {"actor": loss}, metrics

    def _critic_losses(self, weights: Tensors, batch: Named, hyper: Named) -> tuple[Named, Named]:
        values = self.agent.critic(weights, batch["observations"])
        loss = self.critic_loss.loss(
            values,
            batch["old_values"],
            batch["returns"],
            batch["weight"],
            **_own(hyper, "critic"),
        )
        return {"critic": loss}, {"value_loss": loss}

    def _joint_losses(self, weights: Tensors, batch: Named, hyper: Named) -> tuple[Named, Named]:
        actor, actor_metrics = self._actor_losses(weights, batch, hyper)
        critic, critic_metrics = self._critic_losses(weights, batch, hyper)
        losses = {**actor, "critic": hyper["value_coef"] * critic["critic"]}
        return losses, {**actor_metrics, **critic_metrics}


def _own(hyper: Named, owner: str) -> Named:
    prefix = f"{owner}/"
    return {k.removeprefix(prefix): v for k, v in hyper.items() if k.startswith(prefix)}


def _rollout_metrics(
    values: tf.Tensor,
    returns: tf.Tensor,
    advantages: tf.Tensor,
    rewards: tf.Tensor,
    valid: tf.Tensor,
) -> Named:
    """Moments over the valid rows; explained variance is 1 − Var[G − V]/Var[G], 0 if G is flat."""

    def moments(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        mean = weighted_mean(x, valid)
        return mean, weighted_mean(tf.square(x - mean), valid)

    return_mean, return_variance = moments(returns)
    _, residual = moments(returns - values)
    value_mean, _ = moments(values)
    explained = tf.where(
        return_variance > 1e-12, 1.0 - residual / tf.maximum(return_variance, 1e-12), 0.0
    )
    advantage_mean, advantage_variance = moments(advantages)
    return {
        "explained_variance": explained,
        "value_mean": value_mean,
        "return_mean": return_mean,
        "return_std": tf.sqrt(return_variance),
        "advantage_mean": advantage_mean,
        "advantage_std": tf.sqrt(advantage_variance),
        "reward_mean": weighted_mean(rewards, valid),
    }
