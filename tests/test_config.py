import math

import gin
import numpy as np
import pytest
from commands import TINY

from acx import config
from acx.errors import ConfigError
from acx.experiment import Experiment


def built(*files, bindings=()):
    """The experiment of these files (tiny.gin first) and the resolved configuration."""
    found = config.load([str(TINY), *map(str, files)], list(bindings))
    experiment = config.build(Experiment, found)
    experiment.environment.make_single().close()
    return experiment, config.resolved()


def values(text):
    """Every binding of a resolved configuration."""
    return sorted(line for line in text.splitlines() if line and not line.startswith("#"))


def gamma(experiment):
    return experiment.learner.advantage.gamma


def test_T56_the_last_binding_wins_and_the_command_line_over_all(tmp_path):
    over, include_last = tmp_path / "over.gin", tmp_path / "include_last.gin"
    over.write_text(f"include '{TINY}'\nGAE.gae_lambda = 0.11\n")
    include_last.write_text(f"GAE.gae_lambda = 0.11\ninclude '{tmp_path / 'base.gin'}'\n")
    (tmp_path / "base.gin").write_text("GAE.gae_lambda = 0.10\n")

    def gae_lambda(files, bindings=()):
        found = config.load(list(map(str, files)), list(bindings))
        return config.build(Experiment, found).learner.advantage.gae_lambda

    assert gae_lambda([over]) == 0.11
    assert gae_lambda([TINY, include_last]) == 0.10
    assert gae_lambda([over], ["GAE.gae_lambda = 0.99"]) == 0.99
    assert gae_lambda([over, tmp_path / "base.gin"]) == 0.10


def test_T56_macros_are_bound_late_and_change_all_their_users(tmp_path):
    file = tmp_path / "over.gin"
    file.write_text("gamma = 0.7\n")
    experiment, _ = built(file, bindings=["GAE.gae_lambda = %gamma"])
    assert gamma(experiment) == 0.7
    assert experiment.learner.advantage.gae_lambda == 0.7
    experiment, _ = built(file, bindings=["GAE.gae_lambda = %gamma", "gamma = 0.5"])
    assert gamma(experiment) == experiment.learner.advantage.gae_lambda == 0.5


def test_T60_a_second_load_starts_from_nothing():
    experiment, _ = built(bindings=["GAE.gae_lambda = 0.2"])
    assert experiment.learner.advantage.gae_lambda == 0.2
    experiment, _ = built()
    assert experiment.learner.advantage.gae_lambda == 0.95
    with pytest.raises(RuntimeError, match="locked"):
        gin.bind_parameter("acx.GAE.gamma", 0.1)


ROUND_TRIPS = {
    "as it is": [],
    "T45 T58 clip off by None": ["clip_norm = None"],
    "T45 T58 clip off by infinity": ["clip_norm = 1e999"],
    "T58 infinity without the macro": ["ClippedOptimizer.clip_norm = 1e999"],
    "schedule": [
        "learning_rate = @ExponentialDecay()",
        "ExponentialDecay.initial_value = 1e-3",
        "ExponentialDecay.decay_rate = 0.5",
        "ExponentialDecay.decay_steps = 10",
        "ExponentialDecay.unit = 'iterations'",
    ],
    "scopes": [
        "Learner.critic_optimizer = @critic/ClippedOptimizer()",
        "critic/ClippedOptimizer.clip_norm = 2.0",
        "Agent.critic_torso = @critic/MLP()",
        "critic/MLP.hidden_sizes = (5, 6)",
    ],
    "options": [
        "Environment.env_options = {'length': 5, 'offset': -1.5, 'truncates': False}",
        "Environment.wrappers = [@gymnasium.wrappers.TimeLimit]",
        "gymnasium.wrappers.TimeLimit.max_episode_steps = 3",
    ],
    "shared torso": ["Agent.critic_torso = None", "Learner.critic_optimizer = None"],
}


def settings_of(component, depth=6):
    """Every plain setting that a component holds, by path."""
    found = {}
    for name, value in sorted(vars(component).items()):
        if hasattr(value, "__dict__") and type(value).__module__.startswith("acx") and depth:
            nested = settings_of(value, depth - 1)
            found |= {f"{name}.{key}": inner for key, inner in nested.items()}
        elif isinstance(value, bool | int | float | str | tuple | dict | type(None)):
            found[name] = value
    return found


@pytest.mark.parametrize("bindings", ROUND_TRIPS.values(), ids=ROUND_TRIPS)
def test_T58_the_resolved_configuration_re_creates_itself_and_the_components(tmp_path, bindings):
    experiment, resolved = built(bindings=bindings)
    file = tmp_path / "config.gin"
    file.write_text(resolved)
    found = config.load([str(file)])
    again = config.build(Experiment, found)
    again.environment.make_single().close()
    assert values(config.resolved()) == values(resolved)
    assert settings_of(again) == settings_of(experiment)
    assert settings_of(again)["learner.actor_optimizer.clip_norm"] is not None


def test_T58_the_resolved_configuration_holds_the_defaults_too():
    _, resolved = built()
    for line in ("GAE.gae_lambda = 0.95", "Learner.epochs = 1", "MLP.activation = 'tanh'"):
        assert line in resolved


def test_T45_infinity_turns_clipping_off_from_gin_too():
    for value in ("None", "1e999"):
        experiment, _ = built(bindings=[f"clip_norm = {value}"])
        assert experiment.learner.actor_optimizer.clip_norm == math.inf


def test_T58_numbers_of_a_sweep_arrive_as_they_were():
    for number in np.linspace(0.1, 0.9, 7):
        experiment, _ = built(bindings=[f"gamma = {float(number)!r}"])
        assert gamma(experiment) == number


def test_integers_are_accepted_where_numbers_are_wanted():
    experiment, _ = built(bindings=["clip_norm = 1", "gamma = 1"])
    assert experiment.learner.actor_optimizer.clip_norm == 1.0
    assert gamma(experiment) == 1


def test_comments_and_quotes_in_included_files_are_read_as_gin_reads_them(tmp_path):
    (tmp_path / "part.gin").write_text("# include 'nowhere.gin'\nGAE.gae_lambda = 0.5  # 'half'\n")
    file = tmp_path / "whole.gin"
    file.write_text("include 'part.gin'\nMLP.hidden_sizes = (\n    3,  # three\n    2,\n)\n")
    experiment, _ = built(file)
    assert experiment.learner.advantage.gae_lambda == 0.5
    assert experiment.agent.actor_torso.hidden_sizes == (3, 2)


def test_T54_errors_of_constructors_in_code_name_component_and_parameter():
    from acx.advantages import GAE

    with pytest.raises(ConfigError, match=r"GAE\.gamma = 1\.5"):
        GAE(1.5)
    with pytest.raises(ConfigError, match=r"GAE\.gamma = 1\.5"):
        GAE(gamma=1.5)
