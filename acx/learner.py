"""The learner: from a trajectory to new weights, in compiled TensorFlow.

One iteration, in order:

  1. `_prepare`     values, old log-probabilities, advantages and returns of the whole rollout
  2. `_minimize`    epochs over shuffled minibatches for the actor, and for the critic
  3. `finish`       new weights taken, metrics returned

Actor and critic are separate programs on separate weights, so they run on two cores, and the
critic's goes on while the next rollout is collected: acting needs no values. Both see only what
step 1 computed, so the result is the same as one after the other.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from acx.actors import NumpyNetwork
from acx.advantages import Advantage, normalize
from acx.agents import Agent
from acx.config import NonNegative, Positive, PositiveInt, configurable
from acx.errors import ConfigError, RunError
from acx.objectives import CriticLoss, Metrics, PolicyObjective, weighted_mean
from acx.optimizers import ClippedOptimizer
from acx.rollouts import Trajectory
from acx.schedules import Progress, Schedule, value_at

Tensors = Sequence[tf.Tensor]
# The loss of each head on a minibatch, and what to report.
Losses = Callable[[Tensors, dict[str, tf.Tensor], dict[str, tf.Tensor]], tuple[Metrics, Metrics]]


class Part:
    """Weights that one optimizer trains: the actor's, the critic's, or both where they share."""

    def __init__(self, name: str, vector: Any, optimizer: ClippedOptimizer, losses: Losses) -> None:
        self.name = name
        self.vector = vector
        self.optimizer = optimizer
        self.losses = losses
        self.variable = optimizer.build(vector.read())
        self.parameters = self.variable.numpy()
        self.optimizer_steps = 0
        self.metric_names: list[str] = []
        self.minimize = tf.function(self._minimize, jit_compile=True, autograph=False)

    def load(self, parameters: np.ndarray) -> None:
        """Replace the weights."""
        self.variable.assign(parameters)
        self.parameters = self.variable.numpy()

    def gradient(
        self,
        parameters: tf.Tensor,
        minibatch: dict[str, tf.Tensor],
        hyper: dict[str, tf.Tensor],
    ) -> tuple[tf.Tensor, Metrics]:
        """Gradient of the summed losses as a flat vector, and the metrics of this minibatch.

        Raises:
          ValueError: a weight gets no gradient from any loss (found when tracing).
        """
        weights = self.vector.split(parameters)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(weights)
            losses, metrics = self.losses(weights, minibatch, hyper)
        total, reached = tf.zeros_like(parameters), set()
        for head, loss in losses.items():
            gradients = tape.gradient(loss, weights)
            reached |= {i for i, g in enumerate(gradients) if g is not None}
            flat = tf.concat(
                [
                    tf.reshape(tf.zeros_like(w) if g is None else g, [-1])
                    for g, w in zip(gradients, weights, strict=True)
                ],
                axis=0,
            )
            metrics[f"grad_norm_{head}"] = tf.sqrt(tf.reduce_sum(tf.square(flat)))
            total += flat
        for i, variable in enumerate(self.vector.variables):
            if i not in reached:
                raise ValueError(
                    f"the weight {variable.path} of the {self.name} gets no gradient: "
                    "its output doesn't enter the loss, or left TensorFlow on the way"
                )
        return total, metrics

    def _minimize(
        self,
        batch: dict[str, tf.Tensor],
        minibatches: tf.Tensor,
        learning_rates: tf.Tensor,
        hyper: dict[str, tf.Tensor],
    ) -> tf.Tensor:
        """Gradient steps over `minibatches` [M, K] of row numbers, in place.

        Returns:
          [steps taken, 1 where all was finite, metric means...]. Where a loss or gradient was not
          finite, the weights and the optimizer are left as they were.
        """
        state = self.optimizer.state
        before = [tf.identity(variable.value) for variable in state]

        def step(i: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            rows = minibatches[i]
            minibatch = {name: tf.gather(column, rows) for name, column in batch.items()}
            parameters = tf.identity(self.variable.value)
            gradient, metrics = self.gradient(parameters, minibatch, {**hyper, "step": i})
            norm = self.optimizer.apply(gradient, learning_rates[i], hyper["clip_norm"])
            self.metric_names = list(metrics)
            values = tf.stack(list(metrics.values()))
            good = tf.math.is_finite(norm) & tf.reduce_all(tf.math.is_finite(values))
            return values, good, metrics.get("approx_kl", tf.constant(0.0)) <= hyper["kl_limit"]

        def body(
            i: tf.Tensor, sums: tf.Tensor, good: tf.Tensor, going: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
            values, fine, going = step(i)
            return i + 1, sums + values, good & fine, going

        count = minibatches.shape[0]
        sums, good, going = step(tf.constant(0))
        taken = tf.constant(1)
        if count > 1:
            taken, sums, good, _ = tf.while_loop(
                lambda i, sums, good, going: (i < count) & good & going,
                body,
                (taken, sums, good, going),
            )
        good &= tf.reduce_all(tf.math.is_finite(self.variable.value))
        for variable, old in zip(state, before, strict=True):
            variable.assign(tf.where(good, variable.value, old))
        steps = tf.cast(taken, tf.float32)
        return tf.concat([[steps, tf.cast(good, tf.float32)], sums / steps], axis=0)

    def run(self, *arguments: Any) -> dict[str, float]:
        """Minimize, take the new weights over and return the metrics.

        Raises:
          RunError: a loss or gradient was not finite; the weights are as before.
        """
        taken, good, *means = self.minimize(*arguments).numpy().tolist()
        metrics = dict(zip(self.metric_names, means, strict=True))
        if not good:
            first = next((n for n, v in metrics.items() if not np.isfinite(v)), "weights")
            raise RunError(
                f"the {self.name}'s {first} is not finite in gradient step {int(taken)} of "
                f"this iteration (step {self.optimizer_steps + int(taken):,} in all): nothing "
                "of the iteration was kept. Likely causes: a learning rate or reward scale that "
                "is too large, or clip_norm off"
            )
        self.parameters = self.variable.numpy()
        self.optimizer_steps += int(taken)
        return metrics


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
        self.uses_entropy = isinstance(entropy_coef, Schedule) or entropy_coef > 0

    def build(
        self,
        agent: Agent,
        rollout_size: tuple[int, int],
        shuffling: np.random.Generator,
        entropy: np.random.Generator,
    ) -> None:
        """Create optimizers and programs for rollouts of (T, N).

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
        self.minibatches = (self.rows // size, size)
        if agent.shares_torso:
            parts = [("agent", self.actor_optimizer, self._joint_losses)]
        elif self.critic_optimizer is None:
            raise ConfigError("Learner.critic_optimizer is not set, and the critic has its own "
                              "torso", "Learner", "critic_optimizer")  # fmt: skip
        else:
            parts = [
                ("actor", self.actor_optimizer, self._actor_losses),
                ("critic", self.critic_optimizer, self._critic_losses),
            ]
        self.parts = [
            Part(name, vector, optimizer, losses)
            for (name, optimizer, losses), vector in zip(parts, agent.networks, strict=True)
        ]
        self.iterations = 0
        self.values = NumpyNetwork(agent.critic)
        self._prepare_compiled = tf.function(self._prepare, jit_compile=True, autograph=False)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="critic")
        self._pending: Future[dict[str, float]] | None = None

    @property
    def actor_parameters(self) -> np.ndarray:
        """The flat vector that holds the actor's weights, current after `update`."""
        return self.parts[0].parameters

    def update(self, trajectory: Trajectory, progress: Progress) -> None:
        """Learn from one trajectory. The actor's weights are new when this returns; the critic's
        may be still at work: `finish` waits for them.

        Raises:
          RunError: a loss or gradient is not finite; the weights are as before.
        """
        assert self._pending is None, "finish() comes before the next update()"
        rewards = trajectory.rewards
        normalizer = self.agent.reward_normalizer
        if normalizer is not None:
            done = np.maximum(trajectory.terminated, trajectory.truncated)
            normalizer.update(rewards, done, trajectory.valid)
            rewards = normalizer.normalize(rewards)
        columns = np.stack(
            [
                rewards,
                trajectory.terminated,
                trajectory.truncated,
                trajectory.valid,
                self._final_values(trajectory),
            ]
        )
        batch, report = self._prepare_compiled(
            self.parts[0].parameters,
            self.parts[-1].parameters,
            trajectory.observations,
            trajectory.last_observations,
            trajectory.actions,
            columns,
            self._hyper(self.advantage.hyperparameters() | {"reward_scale": self.reward_scale}),
        )
        runs = [self._arguments(part, batch, progress) for part in self.parts]
        if len(runs) > 1:
            self._pending = self._worker.submit(self.parts[1].run, *runs[1])
        self._report = dict(zip(self._prepare_names, report.numpy().tolist(), strict=True))
        self._report.update(self.parts[0].run(*runs[0]))
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

    def sync_models(self) -> None:
        """Write the weights into the Keras models."""
        for part in self.parts:
            part.vector.assign(part.parameters)

    def _final_values(self, trajectory: Trajectory) -> np.ndarray:
        """V(final observation) where an episode was truncated, else 0: [T, N]."""
        values = np.zeros_like(trajectory.rewards)
        if len(trajectory.final_observations):
            self.values.load(self.parts[-1].parameters)
            values[trajectory.truncated > 0] = self.values(trajectory.final_observations)
        return values

    def _hyper(self, settings: dict[str, float]) -> dict[str, np.float32]:
        return {name: np.float32(value) for name, value in settings.items()}

    def _arguments(
        self, part: Part, batch: dict[str, tf.Tensor], progress: Progress
    ) -> tuple[Any, ...]:
        """What `Part.run` takes: data, row numbers, learning rates, hyperparameters."""
        per_epoch, size = self.minibatches
        count = self.epochs * per_epoch
        if count > 1:
            order = [self.shuffling.permutation(self.rows) for _ in range(self.epochs)]
            rows = np.concatenate(order).reshape(count, size).astype(np.int32)
        else:
            rows = np.arange(self.rows, dtype=np.int32)[None]
        optimizer = part.optimizer
        rates = optimizer.factory.learning_rates(part.optimizer_steps, count, progress)
        target = self.policy_objective.target_kl
        hyper = self._hyper(
            {f"policy/{k}": v for k, v in self.policy_objective.hyperparameters(progress).items()}
            | {f"critic/{k}": v for k, v in self.critic_loss.hyperparameters(progress).items()}
            | {
                "clip_norm": optimizer.clip_norm,
                "kl_limit": np.inf if target is None else 1.5 * target,
                "entropy_coef": float(value_at(self.entropy_coef, progress)),
                "value_coef": self.value_coef,
            }
        )
        seed = np.int32(self.entropy.integers(2**31)) if self.uses_entropy else np.int32(0)
        self.last_rates = {**getattr(self, "last_rates", {}), part.name: float(rates[-1])}
        return batch, rows, rates, {**hyper, "seed": seed}

    # Everything below is traced into compiled programs.

    def _prepare(
        self,
        actor_parameters: tf.Tensor,
        critic_parameters: tf.Tensor,
        observations: tf.Tensor,
        last_observations: tf.Tensor,
        actions: tf.Tensor,
        columns: tf.Tensor,
        hyper: dict[str, tf.Tensor],
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """The rollout as [B] columns for minibatches, and a vector of metrics."""
        rewards, terminated, truncated, valid, final_values = tf.unstack(columns)
        rewards = rewards * hyper["reward_scale"]
        agent = self.agent
        shape = tuple(rewards.shape)
        flat = tf.reshape(observations, (-1, *observations.shape[2:]))
        flat_actions = tf.reshape(actions, (-1, *actions.shape[2:]))

        weights = agent.networks[-1].split(critic_parameters)
        seen = tf.concat([flat, last_observations], axis=0)
        all_values = tf.reshape(agent.critic(weights, seen), (shape[0] + 1, shape[1]))
        values = all_values[:-1]
        next_values = tf.where(truncated > 0, final_values, all_values[1:])
        settings = {name: hyper[name] for name in self.advantage.hyperparameters()}
        advantages = self.advantage.estimate(
            rewards, values, next_values, terminated, truncated, **settings
        )
        returns = advantages + values
        metrics = _rollout_metrics(values, returns, advantages, rewards, valid)
        if self.normalize_advantages:
            advantages = normalize(advantages, valid)

        weights = agent.networks[0].split(actor_parameters)
        outputs = agent.actor(weights, flat)
        log_prob = agent.policy_head.log_prob(outputs, flat_actions)
        weight = tf.reshape(valid, [-1])
        metrics["entropy"] = -weighted_mean(log_prob, weight)
        metrics.update(agent.policy_head.statistics(outputs))
        batch = {
            "observations": flat,
            "actions": flat_actions,
            "old_log_prob": log_prob,
            "advantages": tf.reshape(advantages, [-1]),
            "returns": tf.reshape(returns, [-1]),
            "old_values": tf.reshape(values, [-1]),
            "weight": weight,
        }
        self._prepare_names = list(metrics)
        return batch, tf.stack(list(metrics.values()))

    def _actor_losses(
        self, weights: Tensors, batch: dict[str, tf.Tensor], hyper: dict[str, tf.Tensor]
    ) -> tuple[Metrics, Metrics]:
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

    def _critic_losses(
        self, weights: Tensors, batch: dict[str, tf.Tensor], hyper: dict[str, tf.Tensor]
    ) -> tuple[Metrics, Metrics]:
        values = self.agent.critic(weights, batch["observations"])
        loss = self.critic_loss.loss(
            values,
            batch["old_values"],
            batch["returns"],
            batch["weight"],
            **_own(hyper, "critic"),
        )
        return {"critic": loss}, {"value_loss": loss}

    def _joint_losses(
        self, weights: Tensors, batch: dict[str, tf.Tensor], hyper: dict[str, tf.Tensor]
    ) -> tuple[Metrics, Metrics]:
        actor, actor_metrics = self._actor_losses(weights, batch, hyper)
        critic, critic_metrics = self._critic_losses(weights, batch, hyper)
        losses = {**actor, "critic": hyper["value_coef"] * critic["critic"]}
        return losses, {**actor_metrics, **critic_metrics}


def _own(hyper: dict[str, tf.Tensor], owner: str) -> dict[str, tf.Tensor]:
    prefix = f"{owner}/"
    return {k.removeprefix(prefix): v for k, v in hyper.items() if k.startswith(prefix)}


def _rollout_metrics(
    values: tf.Tensor,
    returns: tf.Tensor,
    advantages: tf.Tensor,
    rewards: tf.Tensor,
    valid: tf.Tensor,
) -> Metrics:
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
