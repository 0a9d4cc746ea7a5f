"""What an update computes, as functions that are traced into compiled TensorFlow."""

import tensorflow as tf

from acx.advantages import Advantage, normalize
from acx.agents import Agent
from acx.minimizer import Named, Tensors
from acx.objectives import CriticLoss, PolicyObjective, weighted_mean
from acx.rollouts import trajectory_layout


class UpdateProgram:
    """From a rollout to advantages and returns, and from a minibatch to the heads' losses.

    Args:
      agent: built for its environment.
      advantage: the advantage estimator.
      policy_objective: the actor's loss.
      critic_loss: the critic's loss.
      rollout_size: (T, N).
      normalize_advantages: over the rollout.
      uses_entropy: whether the actor's loss has an entropy bonus.
    """

    def __init__(
        self,
        agent: Agent,
        advantage: Advantage,
        policy_objective: PolicyObjective,
        critic_loss: CriticLoss,
        rollout_size: tuple[int, int],
        normalize_advantages: bool,
        uses_entropy: bool,
    ) -> None:
        self.agent = agent
        self.advantage = advantage
        self.policy_objective = policy_objective
        self.critic_loss = critic_loss
        self.rollout_size = rollout_size
        self.normalize_advantages = normalize_advantages
        self.uses_entropy = uses_entropy
        self.observation_shape = tuple(agent.actor.model.input_shape[1:])
        self.action_shape = agent.policy_head.action_shape
        self.layout = trajectory_layout(rollout_size, self.observation_shape, self.action_shape)
        self.report_names: list[str] = []
        self.columns: dict[str, tuple[int, ...]] = {
            "observations": self.observation_shape,
            "actions": self.action_shape,
            **dict.fromkeys(("old_log_prob", "advantages", "returns", "old_values", "weight"), ()),
        }

    def prepare(
        self,
        actor_parameters: tf.Tensor,
        critic_parameters: tf.Tensor,
        data: tf.Tensor,
        settings: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """A rollout, ready for minibatches.

        Args:
          actor_parameters: the vector that holds the actor's weights.
          critic_parameters: the vector that holds the critic's.
          data: `Trajectory.data`.
          settings: the reward scale, where the agent normalizes values their mean and std, then the
            advantage's hyperparameters.

        Returns:
          A matrix [B, width] whose rows are split by `columns`, and a vector of metrics, named by
          `report_names`.
        """
        agent, (length, num_envs) = self.agent, self.rollout_size
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
        ) = self.layout.split(data)
        reward_scale, *hyper = tf.unstack(settings)
        rewards *= reward_scale
        flat = tf.reshape(observations, (-1, *self.observation_shape))
        flat_actions = tf.reshape(actions, (-1, *self.action_shape))

        weights = agent.networks[-1].layout.split(critic_parameters)
        seen = tf.concat([flat, last_observations], axis=0)
        all_values = tf.reshape(agent.critic(weights, seen), (length + 1, num_envs))
        if agent.value_normalizer is not None:
            mean, std, *hyper = hyper
            all_values, final_values = mean + std * all_values, mean + std * final_values
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
        metrics |= _data_metrics(observations, rewards, terminated, truncated, valid)
        if self.normalize_advantages:
            advantages = normalize(advantages, valid)

        weights = agent.networks[0].layout.split(actor_parameters)
        outputs = agent.actor(weights, flat)
        log_prob = agent.policy_head.log_prob(outputs, flat_actions)
        metrics["entropy"] = -weighted_mean(log_prob, tf.reshape(valid, [-1]))
        metrics |= agent.policy_head.statistics(outputs, flat_actions)
        self.report_names = list(metrics)
        if agent.value_normalizer is not None:  # what the critic outputs
            returns, values = (returns - mean) / std, (values - mean) / std
        columns = [flat, flat_actions, log_prob, advantages, returns, values, valid]
        rows = [tf.reshape(column, (length * num_envs, -1)) for column in columns]
        return tf.concat(rows, axis=1), tf.stack(list(metrics.values()))

    def actor_losses(self, weights: Tensors, batch: Named, hyper: Named) -> tuple[Named, Named]:
        """The actor's loss with its entropy bonus, of a minibatch."""
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

    def critic_losses(self, weights: Tensors, batch: Named, hyper: Named) -> tuple[Named, Named]:
        """The critic's loss, of a minibatch."""
        values = self.agent.critic(weights, batch["observations"])
        loss = self.critic_loss.loss(
            values,
            batch["old_values"],
            batch["returns"],
            batch["weight"],
            **_own(hyper, "critic"),
        )
        return {"critic": loss}, {"value_loss": loss}

    def joint_losses(self, weights: Tensors, batch: Named, hyper: Named) -> tuple[Named, Named]:
        """Both, where actor and critic share a torso and one optimizer."""
        actor, actor_metrics = self.actor_losses(weights, batch, hyper)
        critic, critic_metrics = self.critic_losses(weights, batch, hyper)
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


def _data_metrics(
    observations: tf.Tensor,
    rewards: tf.Tensor,
    terminated: tf.Tensor,
    truncated: tf.Tensor,
    valid: tf.Tensor,
) -> Named:
    """What the environments returned, as the networks see it.

    `observation_rms` is the root mean square of the component where it is largest;
    `repeated_observations` is the share of steps within an episode that changed nothing;
    `equal_environments` the share of time steps at which all environments observed the same.
    """
    length, num_envs = valid.shape
    flat = tf.reshape(observations, (length, num_envs, -1))
    sizes = tf.abs(flat) * valid[:, :, None]
    squares = tf.reduce_sum(tf.square(sizes), axis=(0, 1))
    mean_squares = squares / tf.maximum(tf.reduce_sum(valid), 1.0)
    metrics = {
        "observation_rms": tf.sqrt(tf.reduce_max(mean_squares)),
        "observation_max": tf.reduce_max(sizes),
        "reward_std": tf.sqrt(
            weighted_mean(tf.square(rewards - weighted_mean(rewards, valid)), valid)
        ),
        "reward_nonzero": weighted_mean(tf.cast(rewards != 0, tf.float32), valid),
        "terminated_share": weighted_mean(terminated, valid),
        "truncated_share": weighted_mean(truncated, valid),
    }
    if length > 1:
        inside = (1.0 - tf.maximum(terminated, truncated)[:-1]) * valid[:-1] * valid[1:]
        same = tf.reduce_all(flat[1:] == flat[:-1], axis=-1)
        metrics["repeated_observations"] = weighted_mean(tf.cast(same, tf.float32), inside)
    if num_envs > 1:
        equal = tf.reduce_all(flat == flat[:, :1], axis=(1, 2))
        metrics["equal_environments"] = tf.reduce_mean(tf.cast(equal, tf.float32))
    return metrics
