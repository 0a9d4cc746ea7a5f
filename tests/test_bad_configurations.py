"""Every configuration that can't be run: one line, exit code 2, no traceback, no run folder."""

import functools

import pytest
from commands import TINY, run_here


@pytest.fixture
def acx(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return functools.partial(run_here, monkeypatch, capsys)


def refused(outcome, *fragments):
    """One plain line with all of the fragments."""
    assert outcome.code == 2, outcome
    lines = outcome.err.strip().splitlines()
    assert len(lines) == 1, outcome.err
    assert lines[0].startswith("acx: ")
    assert "Traceback" not in outcome.out + outcome.err
    for fragment in fragments:
        assert fragment in lines[0]


# In each case the last line is the wrong one; then what the message must name.
CASES = {
    # names
    "T54 misspelt parameter": ("GAE.gama = 0.9", ["GAE", "'gama'", "'gamma'"]),
    "T54 misspelt component": ("GEA.gamma = 0.9", ["'GEA'", "'GAE'"]),
    "T54 misspelt reference": ("Learner.advantage = @GAEE()", ["'GAEE'", "'GAE'"]),
    "T54 failing import": ("import nosuchmodule", ["nosuchmodule"]),
    "parameter of nothing alike": ("GAE.zzz = 1", ["'zzz'", "gamma", "gae_lambda"]),
    "misspelt macro used": ("GAE.gamma = %gama", ["%gama", "'gamma'"]),
    "T56 undefined macro": ("GAE.gae_lambda = %nowhere", ["'nowhere'", "not defined"]),
    "misspelt macro bound": ("leraning_rate = 0.1", ["'leraning_rate'", "'learning_rate'"]),
    "unused macro": ("something = 0.1", ["nothing reads", "'something'"]),
    "unused component": ("TD.n_steps = 5", ["nothing reads", "TD.n_steps"]),
    "unused scope": ("critic/MLP.activation = 'relu'", ["nothing reads", "critic/MLP.activation"]),
    # types
    "T42 text for a number": (
        "OptimizerFactory.learning_rate = '3e-4'",
        ["learning_rate", "'3e-4'"],
    ),
    "number for text": ("Environment.env_id = 3", ["Environment.env_id", "3"]),
    "text for an integer": ("Environment.num_envs = '8'", ["Environment.num_envs", "'8'"]),
    "fraction for an integer": ("Experiment.rollout_length = 8.5", ["rollout_length", "8.5"]),
    "number for a list": ("MLP.hidden_sizes = 64", ["MLP.hidden_sizes", "64"]),
    "text for a component": (
        "Learner.advantage = 'GAE'",
        ["Learner.advantage", "'GAE'", "Advantage"],
    ),
    "wrong component": ("Learner.advantage = @CriticHead()", ["Learner.advantage", "Advantage"]),
    "component not called": ("Learner.advantage = @GAE", ["Learner.advantage"]),
    "None for a number": ("GAE.gamma = None", ["GAE.gamma", "None"]),
    "seed of wrong type": ("Experiment.seed = 0.5", ["Experiment.seed", "0.5"]),
    # values out of range
    "gamma above 1": ("GAE.gamma = 1.1", ["GAE.gamma", "1.1", "less than or equal to 1"]),
    "lambda below 0": ("GAE.gae_lambda = -0.1", ["GAE.gae_lambda", "-0.1"]),
    "no environments": ("Environment.num_envs = 0", ["Environment.num_envs", "0"]),
    "negative steps": ("Experiment.total_steps = -5", ["total_steps", "-5"]),
    "less than a rollout": ("Experiment.total_steps = 15", ["total_steps", "15", "8", "2"]),
    "negative seed": ("Experiment.seed = -1", ["seed", "-1"]),
    "T15 reward scale 0": ("Learner.reward_scale = 0.0", ["Learner.reward_scale", "0"]),
    "T15 reward scale below 0": ("Learner.reward_scale = -1.0", ["Learner.reward_scale", "-1"]),
    "T45 clip norm 0": ("ClippedOptimizer.clip_norm = 0", ["clip_norm", "0", "None is off"]),
    "T45 clip norm below 0": ("ClippedOptimizer.clip_norm = -1.0", ["clip_norm", "-1.0", "None"]),
    "unknown choice": ("MLP.activation = 'sine'", ["MLP.activation", "'sine'", "'tanh'"]),
    "neither a number nor a schedule": (
        "OptimizerFactory.learning_rate = 'fast'",
        ["OptimizerFactory.learning_rate = 'fast': should be a valid number, or a Schedule"],
    ),
    "unknown optimizer": ("OptimizerFactory.algorithm = 'adamw'", ["'adamw'", "'adam'"]),
    "unknown vectorization": ("Environment.vectorization = 'fork'", ["'fork'", "'sync'"]),
    "minibatch does not divide": ("Learner.minibatch_size = 5", ["minibatch_size", "5", "16 rows"]),
    "minibatch above the rollout": ("Learner.minibatch_size = 32", ["minibatch_size", "16 rows"]),
    "critic without optimizer": ("Learner.critic_optimizer = None", ["critic_optimizer"]),
    # environments
    "unknown environment": ("Environment.env_id = 'CartPol-v1'", ["CartPol-v1", "CartPole"]),
    "unknown module": ("Environment.env_id = 'nosuch:Env-v0'", ["nosuch"]),
    "wrong option": ("Environment.env_options = {'speed': 2}", ["toys:Noisy-v0", "speed"]),
    "T08 NormalizeObservation": (
        "Environment.wrappers = [@gymnasium.wrappers.NormalizeObservation]",
        ["NormalizeObservation", "Agent.observation_normalizer"],
    ),
    "NormalizeReward": (
        "Environment.wrappers = [@gymnasium.wrappers.NormalizeReward]",
        ["NormalizeReward", "Agent.reward_normalizer"],
    ),
    "T08 Autoreset": ("Environment.wrappers = [@gymnasium.wrappers.Autoreset]", ["Autoreset"]),
    "no own vector class": (
        "Environment.vectorization = 'vector_entry_point'",
        ["toys:Noisy-v0", "vector_entry_point"],
    ),
    "head for another space": (
        "Agent.policy_head = @GaussianTanhHead()",
        ["GaussianTanhHead", "Discrete(2)", "CategoricalHead"],
    ),
    # syntax
    "syntax error": ("GAE.gamma = = 0.9", ["not valid gin", "= = 0.9"]),
    "unclosed text": ("MLP.activation = 'tanh", ["not valid gin"]),
    "missing include": ("include 'nowhere.gin'", ["nowhere.gin", "no such gin file"]),
}


@pytest.mark.parametrize(("line", "fragments"), CASES.values(), ids=CASES)
def test_bad_line_in_a_file(acx, tmp_path, line, fragments):
    file = tmp_path / "bad.gin"
    file.write_text(f"include '{TINY}'\n\n{line}\n")
    refused(acx(f"--gin_file={file}"), f"{file}:3: ", *fragments)
    assert not (tmp_path / "runs").exists()


ON_THE_COMMAND_LINE = ["T54 misspelt parameter", "gamma above 1", "unused macro", "syntax error"]


@pytest.mark.parametrize("case", ON_THE_COMMAND_LINE)
def test_bad_binding_on_the_command_line(acx, tmp_path, case):
    line, fragments = CASES[case]
    refused(acx(f"--gin_file={TINY}", f"--gin_bindings={line}"), "--gin_bindings", *fragments)
    assert not (tmp_path / "runs").exists()


def test_an_unclosed_bracket_is_found_at_the_end_of_the_file(acx, tmp_path):
    file = tmp_path / "bad.gin"
    file.write_text("MLP.hidden_sizes = (4,\n")
    refused(acx(f"--gin_file={file}"), f"{file}:2: not valid gin")


SPACES = {
    "T36 MultiDiscrete actions": ({"observes": "box", "acts": "multidiscrete"}, "MultiDiscrete("),
    "T36 MultiBinary actions": ({"observes": "box", "acts": "multibinary"}, "MultiBinary("),
    "T36 Dict actions": ({"observes": "box", "acts": "dict"}, "Dict("),
    "T36 Graph observations": ({"observes": "graph"}, "Graph("),
}


@pytest.mark.parametrize(("options", "space"), SPACES.values(), ids=SPACES)
def test_unsupported_space(acx, tmp_path, options, space):
    file = tmp_path / "bad.gin"
    file.write_text(
        f"include '{TINY}'\n"
        "Environment.env_id = 'toys:Composite-v0'\n"
        f"Environment.env_options = {options!r}\n"
    )
    refused(acx(f"--gin_file={file}"), space, ".gin:")
    assert not (tmp_path / "runs").exists()


def test_T54_missing_file_names_the_nearest_one(acx, tmp_path):
    (tmp_path / "pendulum.gin").write_text("")
    outcome = acx("--gin_file=pendulm.gin")
    refused(outcome, "no such gin file: pendulm.gin", "'pendulum.gin'")


def test_folder_for_a_file(acx, tmp_path):
    refused(acx(f"--gin_file={tmp_path}"), "is a folder")


def test_binary_file(acx, tmp_path):
    (tmp_path / "bytes.gin").write_bytes(b"\xff\xfe\x00")
    refused(acx("--gin_file=bytes.gin"), "bytes.gin")


def test_file_that_includes_itself(acx, tmp_path):
    (tmp_path / "loop.gin").write_text("include 'loop.gin'\n")
    refused(acx(f"--gin_file={tmp_path / 'loop.gin'}"), "loop.gin", "twice")


def test_no_experiment_named(acx):
    refused(acx(), "--gin_file")


def test_unknown_flag(acx):
    refused(acx("--gin_fil=x.gin"), "gin_fil", "--help")


def test_flag_of_wrong_type(acx):
    refused(acx("--seed=one"), "seed", "one")


def test_stray_argument(acx):
    refused(acx("experiments/pendulum.gin"), "experiments/pendulum.gin", "--help")


def test_incomplete_configuration_names_what_is_missing(acx, tmp_path):
    file = tmp_path / "bare.gin"
    file.write_text("Environment.env_id = 'CartPole-v1'\n")
    refused(acx(f"--gin_file={file}"), "Experiment.", "is not set")


def test_a_folder_that_holds_a_run_is_left_alone(acx, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.gin").write_text("of another run")
    refused(acx(f"--gin_file={TINY}", f"--run_dir={folder}"), str(folder))
    assert (folder / "config.gin").read_text() == "of another run"
    assert sorted(path.name for path in folder.iterdir()) == ["config.gin"]


def test_a_run_folder_that_can_not_be_created(acx, tmp_path):
    (tmp_path / "file").write_text("")
    refused(acx(f"--gin_file={TINY}", f"--run_dir={tmp_path / 'file' / 'run'}"), "can't create")
