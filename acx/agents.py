"""The agent: what is trained. Actor and critic networks, and the statistics that go with them."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import keras
import numpy as np

from acx.config import configurable
from acx.critics import CriticHead, ValueNormalizer
from acx.environments.normalization import ObservationNormalizer, RewardNormalizer
from acx.networks import MLP, Network, ParameterVector, sequential
from acx.policies import PolicyHead


@configurable
class Agent:
    """An actor and a critic, physically separate unless told otherwise.

    Args:
      policy_head: the action distribution.
      critic_head: the value head.
      actor_torso: layers below the policy head.
      critic_torso: layers below the critic head. None shares the actor's torso: then both losses
        train it, one optimizer (the learner's `actor_optimizer`) steps all weights, and its
        `clip_norm` bounds the norm of the summed gradient of both heads.
      observation_normalizer: running normalization of observations; None is off.
      reward_normalizer: running scaling of rewards; None is off.
      value_normalizer: running normalization of what the critic learns; None is off.
    """

    actor: Network
    critic: Network

    def __init__(
        self,
        policy_head: PolicyHead,
        critic_head: CriticHead,
        actor_torso: MLP,
        critic_torso: MLP | None,
        observation_normalizer: ObservationNormalizer | None = None,
        reward_normalizer: RewardNormalizer | None = None,
        value_normalizer: ValueNormalizer | None = None,
    ) -> None:
        self.policy_head = policy_head
        self.critic_head = critic_head
        self.actor_torso = actor_torso
        self.critic_torso = critic_torso
        self.observation_normalizer = observation_normalizer
        self.reward_normalizer = reward_normalizer
        self.value_normalizer = value_normalizer

    @property
    def shares_torso(self) -> bool:
        """Whether one optimizer trains actor and critic together."""
        return self.critic_torso is None

    def build(
        self,
        observation_shape: Sequence[int],
        action_space: gymnasium.Space[Any],
        rng: np.random.Generator,
    ) -> None:
        """Create the networks for an environment's spaces.

        Raises:
          ConfigError: the policy head can't serve the action space.
        """
        self.policy_head.build(action_space)
        torso = self.actor_torso.layers(rng)
        actor = sequential("actor", observation_shape, [*torso, *self.policy_head.layers(rng)])
        if self.critic_torso is not None:
            torso = self.critic_torso.layers(rng)
        critic = sequential("critic", observation_shape, [*torso, *self.critic_head.layers(rng)])
        self.networks = self._parameter_vectors(actor, critic)
        if self.observation_normalizer is not None:
            self.observation_normalizer.build(observation_shape)
        self.actor = Network(actor, self.networks[0])
        self.critic = Network(critic, self.networks[-1])

    def _parameter_vectors(
        self, actor: keras.Model, critic: keras.Model
    ) -> tuple[ParameterVector, ...]:
        """One vector each, or one for both where they share variables."""
        if not self.shares_torso:
            return (
                ParameterVector(actor.trainable_variables),
                ParameterVector(critic.trainable_variables),
            )
        variables = {id(v): v for v in (*actor.trainable_variables, *critic.trainable_variables)}
        return (ParameterVector(list(variables.values())),)
