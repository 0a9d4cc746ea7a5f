"""A run resumed with another configuration goes on, or is refused and nothing has changed."""

import fcntl
import functools
import shutil

import pytest
from commands import TINY, run_here

from acx.checkpoints import load
from benchmarks.faults.comparison import checkpoints


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run: 2 environments that observe [3], networks of 4 units, Adam."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        from acx import main

        patch.setattr("sys.argv", ["acx", f"--gin_file={TINY}", f"--run_dir={folder}"])
        with pytest.raises(SystemExit) as stopped:
            main.run()
    assert not stopped.value.code
    return folder


@pytest.fixture
def copy(run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def resume(monkeypatch, capsys, copy):
    """Resume the copy with other bindings."""
    acx = functools.partial(
        run_here, monkeypatch, capsys, f"--run_dir={copy}", "--resume", "--allow_imports"
    )
    return lambda *bindings, flags=("--allow_changes",): acx(
        *flags, *(f"--gin_bindings={binding}" for binding in bindings)
    )


def contents(folder):
    return {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}


UNUSABLE = {
    "wider": (
        ["MLP.hidden_sizes = (8,)"],
        "actor/0/kernel has the shape (3, 4) in it and (3, 8) now",
        "MLP.hidden_sizes = (4,) (now (8,))",
    ),
    "deeper": (["MLP.hidden_sizes = (4, 4)"], "actor/2/kernel has the shape (4, 2) in it and"),
    "only the critic": (
        ["critic/MLP.hidden_sizes = (9,)", "Agent.critic_torso = @critic/MLP()"],
        "critic/0/kernel has the shape (3, 4) in it and (3, 9) now",
    ),
    "layer norm": (["MLP.layer_norm = True"], "actor/2/gamma"),
    "one torso": (
        ["Agent.critic_torso = None", "Learner.critic_optimizer = None"],
        "it has no agent/0/kernel, which is needed now",
    ),
    "another optimizer": (
        ["OptimizerFactory.algorithm = 'rmsprop'"],
        "it has no actor/rmsprop/iteration, which is needed now",
    ),
    "more environments": (
        ["Environment.num_envs = 4"],
        "environments has the shape (2,) in it and (4,) now",
    ),
    "fewer environments": (["Environment.num_envs = 1"], "environments has the shape (2,) in"),
    "another environment": (
        ["Environment.env_id = 'Acrobot-v1'"],
        "observation has the shape (3,) in it and (6,) now",
    ),
    "other actions": (
        ["Environment.env_id = 'Pendulum-v1'", "Agent.policy_head = @GaussianHead()"],
        "it has no Box action, which is needed now",
    ),
    "observations normalized": (
        ["Agent.observation_normalizer = @ObservationNormalizer()"],
        "it has no observation_normalizer, which is needed now",
    ),
    "rewards normalized": (
        ["Agent.reward_normalizer = @RewardNormalizer()"],
        "it has no reward_normalizer, which is needed now",
    ),
    "values normalized": (
        ["Agent.value_normalizer = @ValueNormalizer()"],
        "it has no value_normalizer, which is needed now",
    ),
}


@pytest.mark.parametrize(
    ("bindings", "fragments"), [(b, f) for b, *f in UNUSABLE.values()], ids=UNUSABLE
)
def test_T47_what_a_checkpoint_does_not_fit_is_named_and_nothing_is_touched(
    resume, copy, bindings, fragments
):
    before = contents(copy)
    outcome = resume(*bindings)
    assert outcome.code == 2, outcome
    [line] = outcome.err.strip().splitlines()
    assert line.startswith(f"acx: the checkpoint of {copy} doesn't fit: ")
    for fragment in fragments:
        assert fragment in line
    assert "Traceback" not in outcome.out
    assert contents(copy) == before


USABLE = {
    "a larger budget": ["Experiment.total_steps = 64"],
    "shorter rollouts": ["Experiment.rollout_length = 4", "Experiment.total_steps = 64"],
    "a process each": ["Environment.vectorization = 'async'", "Experiment.total_steps = 64"],
    "a process a core": ["Environment.vectorization = 'parallel'", "Experiment.total_steps = 64"],
    "another activation": ["MLP.activation = 'relu'", "Experiment.total_steps = 64"],
    "another objective": [
        "Learner.policy_objective = @PolicyGradient()",
        "Experiment.total_steps = 64",
    ],
    "rollback": ["Experiment.on_nonfinite = 'rollback'", "Experiment.total_steps = 64"],
    "another seed": ["Experiment.seed = 7", "Experiment.total_steps = 64"],
}


@pytest.mark.parametrize("bindings", USABLE.values(), ids=USABLE)
def test_what_fits_goes_on(resume, copy, bindings):
    outcome = resume(*bindings)
    assert outcome.code == 0, outcome.err
    assert int(load(checkpoints(copy)[-1])["collector/env_steps"]) == 64


def test_a_change_needs_leave_and_a_refusal_changes_nothing(resume, copy):
    before = contents(copy)
    outcome = resume("MLP.hidden_sizes = (8,)", flags=())
    assert outcome.code == 2
    assert "MLP.hidden_sizes = (4,) (now (8,))" in outcome.err
    assert "--allow_changes" in outcome.err
    assert contents(copy) == before


def test_the_configuration_of_a_run_in_progress_is_left_alone(resume, copy):
    before = (copy / "config.gin").read_text()
    with open(copy / "run.lock", "a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome = resume("Experiment.total_steps = 64")
    assert outcome.code == 2
    assert "in use by process" in outcome.err
    assert (copy / "config.gin").read_text() == before
