"""An exported policy acts as acx does, in a process that knows nothing of acx."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tiny
from commands import TINY, run_here
from gymnasium.spaces import Box, Discrete

from acx import serving
from acx.environments.normalization import ObservationNormalizer
from acx.errors import ConfigError
from acx.exploration import GSDE
from acx.policies import CategoricalHead, GaussianHead, GaussianTanhHead

SERVE = """
import sys, json
import numpy as np
import onnxruntime
import tensorflow as tf
folder = sys.argv[1]
cases = np.load(folder + "/cases.npz")
answers = {}
for name in json.loads(sys.argv[2]):
    policy = tf.saved_model.load(f"{folder}/{name}").signatures["serving_default"]
    answers[name] = policy(observations=tf.constant(cases[name]))["actions"].numpy()
    session = onnxruntime.InferenceSession(f"{folder}/{name}.onnx")
    [answers[f"{name}.onnx"]] = session.run(["actions"], {"observations": cases[name]})
assert not [name for name in sys.modules if name.split(".")[0] == "acx"]
np.savez(folder + "/answers.npz", **answers)
"""

BOX = Box(np.array([-2.0, 0.0], np.float32), np.array([1.0, 30.0], np.float32))
NARROW = Box(-1e-3, 2e-3, (2,), np.float32)  # narrower than what an untrained policy returns
EXPERIMENTS = {
    "tanh": {"head": GaussianTanhHead(gain=1.0), "env_options": {"actions": BOX}},
    "clipped": {"head": GaussianHead(gain=1.0), "env_options": {"actions": NARROW}},
    "state_dependent": {
        "head": GaussianHead("state_dependent", gain=1.0),
        "env_options": {"actions": BOX},
    },
    "generalized": {"head": GaussianTanhHead(GSDE(), gain=1.0), "env_options": {"actions": BOX}},
    "start": {"head": CategoricalHead(gain=1.0), "env_options": {"actions": Discrete(3, start=5)}},
    "shared": {
        "head": CategoricalHead(gain=1.0),
        "env_options": {"actions": Discrete(4)},
        "shared_torso": True,
    },
}


def acx_actions(experiment, observations):
    """As `acx.play` acts."""
    agent = experiment.agent
    inputs = agent.observation_normalizer.normalize(observations)
    outputs = experiment.actor(inputs)
    return agent.policy_head.environment_action(agent.policy_head.mode(outputs)).copy()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """For each experiment what acx does and what its export does, on the same observations."""
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(0)
    expected, cases = {}, {}
    for name, options in EXPERIMENTS.items():
        experiment = tiny.experiment(
            "toys:Counter-v0",
            iterations=2,
            hidden_sizes=(64, 64),
            observation_normalizer=ObservationNormalizer(clip=5.0),
            **options,
        )
        tiny.train(experiment)
        cases[name] = rng.normal(0, 3, (64, 1)).astype(np.float32)
        cases[name][-1] = 1e6  # past the normalizer's clip
        expected[name] = acx_actions(experiment, cases[name])
        serving.export(experiment, folder / name)
        serving.export(experiment, folder / f"{name}.onnx", onnx=True)
    np.savez(folder / "cases.npz", **cases)
    subprocess.run(
        [sys.executable, "-c", SERVE, str(folder), json.dumps(list(EXPERIMENTS))],
        cwd=folder,
        check=True,
        timeout=120,
    )
    return expected, dict(np.load(folder / "answers.npz"))


@pytest.mark.parametrize("ending", ["", ".onnx"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_exported_policy_acts_as_acx_does(served, name, ending):
    expected, answers = served[0][name], served[1][name + ending]
    assert answers.shape == expected.shape
    if expected.dtype.kind == "f":
        assert answers.dtype == expected.dtype
    assert len(np.unique(expected)) > 1  # a constant would prove nothing
    np.testing.assert_allclose(answers, expected, rtol=1e-6, atol=1e-6)


def test_actions_that_pass_the_bounds_are_clipped_and_discrete_ones_start_where_the_space_does(
    served,
):
    assert set(np.unique(served[1]["clipped"])) >= {NARROW.low[0], NARROW.high[0]}
    assert served[1]["start"].min() >= 5


def test_a_head_of_ones_own_is_named_with_what_to_do():
    class Alien(CategoricalHead.__base__):
        layers = log_prob = entropy = noise = sample = mode = environment_action = build = None

    with pytest.raises(ConfigError, match=r"Alien can't be exported: register .*served_actions"):
        serving.served_actions(Alien(), None)


def test_an_existing_folder_is_left_alone(tmp_path):
    with pytest.raises(ConfigError, match="exists"):
        serving.export(tiny.experiment(), tmp_path)


def test_a_missing_converter_is_named_with_what_installs_it(monkeypatch, tmp_path):
    experiment = tiny.experiment()
    tiny.train(experiment)
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ConfigError, match=r"pip install 'acx\[onnx\]'"):
        serving.export(experiment, tmp_path / "policy.onnx", onnx=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "written"),
    [([], "policy/saved_model.pb"), (["--format=onnx"], "policy.onnx")],
    ids=["savedmodel", "onnx"],
)
def test_the_command_writes_beside_the_run(monkeypatch, capsys, tmp_path, flags, written):
    monkeypatch.chdir(tmp_path)
    assert run_here(monkeypatch, capsys, f"--gin_file={TINY}", "--run_dir=run").code == 0
    from acx import cli, export

    monkeypatch.setattr(sys, "argv", ["acx.export", "--run_dir=run", *flags])
    with pytest.raises(SystemExit) as stopped:
        cli.run_command("acx.export", export.__doc__, export.FLAGS, export.main)
    assert not stopped.value.code, capsys.readouterr().err
    assert (tmp_path / "run" / written).exists()
