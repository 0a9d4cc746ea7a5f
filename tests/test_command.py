"""The command in processes of its own: what a user sees and finds on disk."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import TESTS, TINY, group_exists, run_here, run_process, start_process, wait_for
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = TESTS.parent


def events(folder):
    return EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()


def steps(folder, tag):
    return [event.step for event in events(folder).Scalars(tag)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One tiny training run with an evaluation every iteration: (outcome, folder)."""
    cwd = tmp_path_factory.mktemp("run")
    outcome = run_process(
        f"--gin_file={TINY}",
        "--gin_bindings=Evaluation.every = 16",
        "--gin_bindings=Evaluation.episodes = 3",
        "--gin_bindings=gamma = 0.8",
        "--seed=7",
        cwd=cwd,
    )
    assert outcome.code == 0, outcome.err
    [folder] = (cwd / "runs" / "tiny").iterdir()
    return outcome, folder


def test_T55_a_run_shows_what_is_trained_and_how_it_ended(run):
    outcome, folder = run
    assert outcome.err == ""
    for text in ("toys:Noisy-v0", "Discrete(2)", "actor", "critic", "tensorboard", "runs/tiny"):
        assert text in outcome.out
    assert "mean return" in outcome.out
    assert folder.name.endswith("-seed7")


TAGS = [
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "eval/mean_reward",
    "eval/mean_ep_length",
    "eval/std_reward",
    "time/fps",
    "time/iterations",
    "time/total_timesteps",
    "time/time_elapsed",
    "train/approx_kl",
    "train/clip_fraction",
    "train/entropy_loss",
    "train/explained_variance",
    "train/learning_rate",
    "train/n_updates",
    "train/policy_gradient_loss",
    "train/value_loss",
    "train/grad_norm_actor",
    "train/grad_norm_critic",
]


def test_the_event_file_has_the_tags_that_people_know(run):
    found = events(run[1])
    assert set(TAGS) <= set(found.Tags()["scalars"])
    assert "config/resolved_gin" in found.Tags()["tensors"]
    assert steps(run[1], "train/value_loss") == [16, 32]
    assert steps(run[1], "eval/mean_reward") == [16, 32, 32]


def test_the_table_and_the_status_agree_with_the_events(run):
    _, folder = run
    with open(folder / "metrics.csv", newline="") as file:
        table = list(csv.DictReader(file))
    losses = [float(row["train/value_loss"]) for row in table if row["train/value_loss"]]
    logged = [event.value for event in events(folder).Scalars("train/value_loss")]
    assert losses == pytest.approx(logged, rel=1e-6)
    status = json.loads((folder / "status.json").read_text())
    assert status["state"] == "finished"
    assert (status["env_steps"], status["total_steps"], status["seed"]) == (32, 32, 7)
    final = events(folder).Scalars("eval/mean_reward")[-1].value
    assert status["mean_reward"] == pytest.approx(final, rel=1e-6)


def test_T58_the_saved_configuration_re_creates_run_and_result(run, monkeypatch, capsys, tmp_path):
    _, folder = run
    saved = folder / "config.gin"
    assert "gamma = 0.8" in saved.read_text()
    monkeypatch.chdir(tmp_path)
    outcome = run_here(monkeypatch, capsys, f"--gin_file={saved}", f"--run_dir={tmp_path / 'b'}")
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "b" / "config.gin").read_text() == saved.read_text()
    for tag in ("train/value_loss", "eval/mean_reward"):
        first, again = (
            [event.value for event in events(f).Scalars(tag)] for f in (folder, tmp_path / "b")
        )
        assert first == again


def test_a_folder_with_a_run_is_not_written_to_again(run, monkeypatch, capsys):
    _, folder = run
    before = sorted(path.name for path in folder.iterdir())
    outcome = run_here(monkeypatch, capsys, f"--gin_file={TINY}", f"--run_dir={folder}")
    assert outcome.code == 2
    assert "holds a run already" in outcome.err
    assert sorted(path.name for path in folder.iterdir()) == before


def test_help_says_what_to_type_and_what_exit_codes_mean(tmp_path):
    started = time.monotonic()
    outcome = run_process("--help", cwd=tmp_path)
    assert outcome.code == 0
    for text in ("--gin_file", "--gin_bindings", "--run_dir", "--seed", "--resume", "Exit codes"):
        assert text in outcome.out
    assert "experiments/pendulum.gin" in outcome.out
    assert "Traceback" not in outcome.err
    assert time.monotonic() - started < 10  # without TensorFlow


def test_T55_the_console_script_finds_every_component_too(tmp_path):
    script = Path(sys.executable).parent / "acx"
    outcome = subprocess.run(
        [script, f"--gin_file={TINY}", "--gin_bindings=GAE.gamma = 2.0"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert outcome.returncode == 2
    assert outcome.stderr.strip().splitlines() == [
        "acx: --gin_bindings: GAE.gamma = 2.0: should be less than or equal to 1"
    ]
    assert list(tmp_path.iterdir()) == []


def test_T53_acx_needs_neither_tf_keras_nor_tensorflow_probability(tmp_path):
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "acx").rglob("*.py")
        if path.stem != "__init__"
    ]
    assert "acx.policies" in modules
    program = (
        "import sys, importlib\n"
        "sys.modules['tf_keras'] = sys.modules['tensorflow_probability'] = None\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert outcome.returncode == 0, outcome.stderr


def test_T68_a_kill_loses_at_most_the_iteration_in_progress(tmp_path):
    """Killed in the fourth rollout: the reports of two iterations are on disk, or of three."""
    options = {"fault": "killed", "at": 28}
    outcome = run_process(
        f"--gin_file={TINY}",
        f"--run_dir={tmp_path / 'run'}",
        "--gin_bindings=Experiment.total_steps = 160",
        "--gin_bindings=Environment.env_id = 'toys:Faulty-v0'",
        f"--gin_bindings=Environment.env_options = {options!r}",
        cwd=tmp_path,
    )
    assert outcome.code == -signal.SIGKILL
    assert steps(tmp_path / "run", "train/value_loss")[:2] == [16, 32]
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert status["state"] == "running"


def test_T68_an_exception_loses_no_report(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    options = {"fault": "raises", "at": 20}  # in the third rollout of 8 steps
    outcome = run_here(
        monkeypatch,
        capsys,
        f"--gin_file={TINY}",
        f"--run_dir={tmp_path / 'run'}",
        "--gin_bindings=Experiment.total_steps = 160",
        "--gin_bindings=Environment.env_id = 'toys:Faulty-v0'",
        f"--gin_bindings=Environment.env_options = {options!r}",
    )
    assert outcome.code == 3
    assert steps(tmp_path / "run", "train/value_loss") == [16, 32]


@pytest.mark.parametrize("vectorization", ["async", "parallel"])
def test_T76_ctrl_c_saves_says_how_to_go_on_and_leaves_no_process(
    monkeypatch, capsys, tmp_path, vectorization
):
    folder = tmp_path / "run"
    total = 128 * 2000
    process = start_process(
        f"--gin_file={TINY}",
        f"--run_dir={folder}",
        f"--gin_bindings=Experiment.total_steps = {total}",
        "--gin_bindings=Experiment.rollout_length = 64",
        f"--gin_bindings=Environment.vectorization = '{vectorization}'",
        cwd=tmp_path,
        start_new_session=True,
    )
    wait_for(lambda: list(folder.glob("events*")) and steps_so_far(folder) > 5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "--resume" in err
    assert "Traceback" not in out + err
    assert not group_exists(process.pid)
    status = json.loads((folder / "status.json").read_text())
    assert status["state"] == "interrupted"
    assert 0 < status["env_steps"] < total

    outcome = run_here(
        monkeypatch,
        capsys,
        f"--run_dir={folder}",
        "--resume",
        f"--gin_bindings=Experiment.total_steps = {status['env_steps'] + 256}",
        "--allow_changes",
    )
    assert outcome.code == 0, outcome.err
    found = steps(folder, "train/value_loss")
    assert found == [128 * i for i in range(1, len(found) + 1)]
    assert found[-1] == status["env_steps"] + 256


@pytest.mark.parametrize("vectorization", ["async", "parallel"])
def test_T76_a_killed_run_leaves_no_process(tmp_path, vectorization):
    folder = tmp_path / "run"
    process = start_process(
        f"--gin_file={TINY}",
        f"--run_dir={folder}",
        "--gin_bindings=Experiment.total_steps = 256_000",
        f"--gin_bindings=Environment.vectorization = '{vectorization}'",
        cwd=tmp_path,
        start_new_session=True,
    )
    wait_for(lambda: steps_so_far(folder) > 5)
    process.kill()
    process.communicate(timeout=30)
    wait_for(lambda: not group_exists(process.pid))


def steps_so_far(folder):
    table = folder / "metrics.csv"
    return len(table.read_text().splitlines()) if table.exists() else 0
