"""Experiments that take over compiled programs give the same results as alone."""

import inspect

import gin
import numpy as np
import pytest
import tensorflow as tf
import tiny
from sweeping import TINY

from acx import config
from acx.experiment import Experiment
from acx.programs import INPUTS, ProgramCache, structure

SCHEDULED = [
    "OptimizerFactory.learning_rate = @LinearDecay()",
    "LinearDecay.initial_value = 0.02",
    "LinearDecay.final_value = 0.01",
    "LinearDecay.decay_steps = 20",
    "LinearDecay.unit = 'optimizer_steps'",
    "Learner.entropy_coef = 0.01",
    "Learner.minibatch_size = 8",
]
# Every input at once, each to another value.
CHANGED = [
    "gamma = 0.5",
    "GAE.gae_lambda = 0.3",
    "clip_norm = None",
    "seed = 7",
    "Experiment.total_steps = 64",
    "Experiment.log_every = 2",
    "Experiment.checkpoint_seconds = 0.0",
    "Evaluation.every = 16",
    "Evaluation.episodes = 3",
    "Evaluation.final_episodes = 4",
    "Learner.reward_scale = 3.0",
    "Learner.value_coef = 0.7",
    "Learner.entropy_coef = 0.2",
    "ClippedSurrogate.clip_range = 0.05",
    "ClippedSurrogate.target_kl = 0.001",
    "OptimizerFactory.learning_rate = @ExponentialDecay()",
    "ExponentialDecay.initial_value = 0.05",
    "ExponentialDecay.decay_rate = 0.5",
    "ExponentialDecay.decay_steps = 3",
    "ExponentialDecay.unit = 'optimizer_steps'",
    "ExponentialDecay.staircase = True",
]
UNSCHEDULED = [line for line in SCHEDULED if "LinearDecay" not in line]


def trained(programs, bindings):
    """What a run reports, its evaluations and final state, without times."""
    experiment = config.build(Experiment, config.load([str(TINY)], bindings))
    programs.build(experiment, config.resolved())
    recorder = tiny.Recorder()
    experiment.run([recorder])
    reports = [
        {tag: value for tag, value in report.scalars.items() if not tag.startswith("time/")}
        for report in recorder.reports
    ]
    returns = [result.returns.tolist() for _, result, _ in recorder.evaluations]
    state = {name: value.tolist() for name, value in experiment.state().items()}
    return reports, returns, state


def test_warm_results_are_cold_results_bit_for_bit(monkeypatch):
    programs = ProgramCache()
    before = trained(programs, SCHEDULED)
    with monkeypatch.context() as patch:
        patch.setattr(tf, "function", None)  # nothing is compiled again
        warm = trained(programs, UNSCHEDULED + CHANGED)
    cold = trained(ProgramCache(), UNSCHEDULED + CHANGED)
    assert warm == cold
    assert warm != before
    assert trained(programs, SCHEDULED) == before


def resolved(bindings):
    config.build(Experiment, config.load([str(TINY)], bindings))
    return config.resolved()


@pytest.mark.parametrize(
    "binding",
    [
        "MLP.hidden_sizes = (5,)",
        "MLP.activation = 'relu'",
        "Learner.epochs = 2",
        "Learner.minibatch_size = 8",
        "Learner.normalize_advantages = True",
        "Learner.entropy_coef = 0.1",
        "Environment.num_envs = 4",
        "Environment.env_options = {'size': 5}",
        "OptimizerFactory.algorithm = 'rmsprop'",
        "OptimizerFactory.epsilon = 1e-3",
        "CriticLoss.clip_range = 0.2",
        "Learner.policy_objective = @PolicyGradient()",
        "Agent.critic_torso = @other/MLP()",
    ],
)
def test_other_structures_are_compiled_anew(binding):
    assert structure(resolved([])) != structure(resolved([binding]))


def test_inputs_are_parameters_that_exist():
    config.load([str(TINY)])
    import acx.runs  # noqa: F401  (registers every component)

    for name in INPUTS:
        component, parameter = name.split(".")
        assert parameter in inspect.signature(gin.get_configurable(component)).parameters


def test_infinity_survives_saving():
    text = resolved(["clip_norm = 1e999", "Environment.env_options = {'offset': -1e999}"])
    assert config.values(text)["clip_norm"] == np.inf
    assert config.values(text)["Environment.env_options"] == {"offset": -np.inf}
