"""A trained policy as a TensorFlow module that needs no acx: what `acx.export` writes."""

import functools
from pathlib import Path

import gymnasium
import numpy as np
import tensorflow as tf

from acx.agents import Agent
from acx.environments.normalization import ObservationNormalizer
from acx.errors import ConfigError, RunError
from acx.experiment import Experiment
from acx.policies import CategoricalHead, GaussianHead, GaussianTanhHead, PolicyHead


@functools.singledispatch
def served_actions(head: PolicyHead, outputs: tf.Tensor) -> tf.Tensor:
    """A head's `environment_action(mode(outputs))` in TensorFlow: [B, K] -> [B, ...].

    Register a head of your own: `@served_actions.register`.

    Raises:
      ConfigError: nothing is registered for this head.
    """
    raise ConfigError(
        f"{type(head).__name__} can't be exported: register what it does in TensorFlow with "
        "acx.serving.served_actions"
    )


@served_actions.register
def _categorical(head: CategoricalHead, outputs: tf.Tensor) -> tf.Tensor:
    return tf.argmax(outputs, axis=-1) + head.start


@served_actions.register
def _gaussian(head: GaussianHead, outputs: tf.Tensor) -> tf.Tensor:
    means = outputs[:, : head.action_shape[0]]
    return _shaped(head, tf.minimum(tf.maximum(means, head.low), head.high))


@served_actions.register
def _gaussian_tanh(head: GaussianTanhHead, outputs: tf.Tensor) -> tf.Tensor:
    means = outputs[:, : head.action_shape[0]]
    scaled = head.low + (tf.tanh(means) + 1.0) * head.half_width
    return _shaped(head, tf.minimum(tf.maximum(scaled, head.low), head.high))


def _shaped(head: GaussianHead | GaussianTanhHead, actions: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.reshape(actions, (-1, *head.space.shape)), head.space.dtype)


def normalized(normalizer: ObservationNormalizer | None, observations: tf.Tensor) -> tf.Tensor:
    """`ObservationNormalizer.normalize` with its present statistics: [B, ...] to float32."""
    if normalizer is None:
        return tf.cast(observations, tf.float32)
    moments = normalizer.moments
    scale = 1.0 / np.sqrt(moments.variance + normalizer.epsilon)
    scaled = (tf.cast(observations, tf.float64) - moments.mean) * scale
    return tf.cast(tf.clip_by_value(scaled, -normalizer.clip, normalizer.clip), tf.float32)


class ServedPolicy(tf.Module):
    """What is exported: weights as variables, everything else as constants.

    Args:
      agent: built, with the weights in its Keras models.
      space: of one observation.
    """

    def __init__(self, agent: Agent, space: gymnasium.spaces.Box) -> None:
        super().__init__("acx_policy")
        self.weights = [
            tf.Variable(v.numpy(), trainable=False) for v in agent.networks[0].variables
        ]
        self._agent = agent
        self.act = tf.function(
            self._act,
            autograph=False,
            input_signature=[tf.TensorSpec((None, *space.shape), space.dtype, "observations")],
        )

    def _act(self, observations: tf.Tensor) -> dict[str, tf.Tensor]:
        agent = self._agent
        inputs = normalized(agent.observation_normalizer, observations)
        outputs = agent.actor([tf.convert_to_tensor(w) for w in self.weights], inputs)
        return {"actions": served_actions(agent.policy_head, outputs)}


def export(experiment: Experiment, path: Path, onnx: bool = False) -> None:
    """Write the policy of a built experiment: a new folder with a SavedModel, or an ONNX file.

    Raises:
      ConfigError: the path exists, the policy head can't be exported, or ONNX has no converter.
      RunError: the path can't be written.
    """
    if path.exists():
        raise ConfigError(f"--out={path} exists: name another path, or remove it")
    experiment.learner.sync_models()
    assert isinstance(experiment.observation_space, gymnasium.spaces.Box)
    policy = ServedPolicy(experiment.agent, experiment.observation_space)
    try:
        if onnx:
            _write_onnx(policy, path)
        else:
            tf.saved_model.save(policy, str(path), signatures={"serving_default": policy.act})
    except (OSError, tf.errors.OpError) as error:
        raise RunError(f"can't write {path}: {error}") from None


def _write_onnx(policy: ServedPolicy, file: Path) -> None:
    try:
        from tf2onnx import convert
    except ImportError:
        raise ConfigError("--format=onnx needs tf2onnx: pip install 'acx[onnx]'") from None
    model, _ = convert.from_function(policy.act, input_signature=policy.act.input_signature)
    model.graph.name = "acx_policy"
    file.write_bytes(model.SerializeToString())
