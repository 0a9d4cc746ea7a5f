"""Whether a checkpoint fits an experiment: the shapes of what it holds, by readable names."""

import json

import numpy as np

from acx.errors import ConfigError
from acx.experiment import Experiment
from acx.states import State

Shapes = dict[str, list[int]]
KEY = "structure"  # of the shapes in a checkpoint


def shapes(experiment: Experiment) -> Shapes:
    """What a built experiment can go on from: its spaces, weights, optimizers and statistics.

    Weights are numbered in the order of their layers, as in `actor/0/kernel`.
    """
    agent, environment = experiment.agent, experiment.environment
    action_space = experiment.action_space
    found: Shapes = {
        "environments": [environment.num_envs],
        "observation": list(experiment.observation_space.shape or ()),
        f"{type(action_space).__name__} action": list(action_space.shape or ()),
    }
    for minimizer in experiment.learner.minimizers:
        for i, weight in enumerate(minimizer.vector.variables):
            found[f"{minimizer.name}/{i}/{weight.name}"] = list(weight.shape)
        optimizer = minimizer.optimizer
        for variable in optimizer.optimizer.variables:
            name = f"{minimizer.name}/{optimizer.factory.algorithm}/{variable.name}"
            found[name] = list(variable.shape)
    for name in ("observation_normalizer", "reward_normalizer", "value_normalizer"):
        if getattr(agent, name) is not None:
            found[name] = []
    return found


def described(state: State, experiment: Experiment) -> State:
    """A checkpoint's state with the shapes of its experiment."""
    return {**state, KEY: np.array(json.dumps(shapes(experiment)))}


def _misfit(state: State, experiment: Experiment) -> str | None:
    """The first thing in a checkpoint that the experiment can't use, in words; None: it fits."""
    now = shapes(experiment)
    saved: Shapes = json.loads(str(state[KEY])) if KEY in state else now
    for name in [*now, *saved]:
        if name not in saved:
            return f"it has no {name}, which is needed now"
        if name not in now:
            return f"it has {name}, which has no place now"
        if saved[name] != now[name]:
            return f"{name} has the shape {tuple(saved[name])} in it and {tuple(now[name])} now"
    return None


def refuse_misfit(
    path: str, state: State, experiment: Experiment, changes: list[str] | None = None
) -> None:
    """Refuse a checkpoint that the experiment can't use.

    Args:
      path: of the run, for the message.
      state: what the checkpoint holds.
      experiment: built.
      changes: what of the configuration is not as it was.

    Raises:
      ConfigError: it doesn't fit.
    """
    problem = _misfit(state, experiment)
    if problem:
        listed = f": {'; '.join(changes)}" if changes else ""
        raise ConfigError(f"the checkpoint of {path} doesn't fit: {problem}{listed}")
