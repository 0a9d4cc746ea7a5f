"""The doctor's command: before training, and of a run."""

import json
import sys

import pytest
from commands import TESTS, TINY, Outcome, run_here
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = TESTS.parent


def doctor(monkeypatch, capsys, *arguments):
    """`python -m acx.doctor` with these arguments, without a new process."""
    from acx import doctor

    monkeypatch.setattr(sys, "argv", ["acx.doctor", *map(str, arguments)])
    monkeypatch.setenv("COLUMNS", "200")
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        doctor.run()
    captured = capsys.readouterr()
    return Outcome(stopped.value.code or 0, captured.out, captured.err)


def test_a_sick_experiment_is_told_what_to_type(monkeypatch, capsys):
    outcome = doctor(
        monkeypatch,
        capsys,
        f"--gin_file={TINY}",
        "--gin_bindings=Experiment.total_steps = 100_000",
        "--gin_bindings=Environment.env_options = {'offset': 300.0}",
        "--steps=200",
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert "2 warnings" in outcome.out
    normalizer = "--gin_bindings='Agent.observation_normalizer = @ObservationNormalizer()'"
    assert outcome.out.count(normalizer) == 2  # beside its finding, and with all of it
    [command] = [line for line in outcome.out.splitlines() if "with all of it" in line]
    assert f"acx --gin_file={TINY}" in command
    assert "--gin_bindings='Learner.reward_scale = 0.001'" in command


@pytest.mark.parametrize("name", ["cartpole", "pendulum", "mountaincar_continuous"])
def test_reference_experiments_are_healthy(monkeypatch, capsys, name):
    file = ROOT / "experiments" / f"{name}.gin"
    outcome = doctor(monkeypatch, capsys, f"--gin_file={file}", "--steps=1500")
    assert (outcome.code, outcome.err) == (0, "")
    assert "nothing found" in outcome.out


def test_a_run_is_examined(monkeypatch, capsys, tmp_path):
    bindings = (
        "--gin_bindings=Environment.env_options = {'offset': 300.0}",
        "--gin_bindings=Experiment.total_steps = 320",
    )
    folder = tmp_path / "run"
    trained = run_here(monkeypatch, capsys, f"--gin_file={TINY}", f"--run_dir={folder}", *bindings)
    assert trained.code == 0
    assert "▲ observation scale: " in trained.out  # live, and again in the list at the end
    assert trained.out.count("observation scale") == 2
    live = json.loads((folder / "health.json").read_text())
    assert "observation scale" in [finding["name"] for finding in live]
    logged = EventAccumulator(str(folder)).Reload()
    assert "health/observation_scale" in logged.Tags()["tensors"]
    outcome = doctor(monkeypatch, capsys, f"--run_dir={folder}")
    assert (outcome.code, outcome.err) == (0, "")
    for finding in live:
        assert finding["name"] in outcome.out
    assert "finished" in outcome.out
    assert "20 reports of 320 steps" in outcome.out
    assert f"acx --gin_file={folder}/config.gin" in outcome.out


def test_a_run_that_failed_says_why(monkeypatch, capsys, tmp_path):
    folder = tmp_path / "run"
    trained = run_here(
        monkeypatch,
        capsys,
        f"--gin_file={TINY}",
        f"--run_dir={folder}",
        "--gin_bindings=Environment.env_id = 'toys:Faulty-v0'",
        "--gin_bindings=Environment.env_options = {'fault': 'reward nan', 'at': 10}",
    )
    assert trained.code == 3
    outcome = doctor(monkeypatch, capsys, f"--run_dir={folder}")
    assert outcome.code == 0
    assert "non-finite value" in outcome.out
    assert "returned the reward [nan]" in outcome.out
    assert "1 error" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name either an experiment"),
        ([f"--gin_file={TINY}", "--run_dir=x"], "name either an experiment"),
        (["--run_dir=nowhere"], "nowhere is not a run folder"),
        ([f"--gin_file={TINY}", "--gin_bindings=gama = 1"], "gama"),
        ([f"--gin_file={TINY}", "--gin_bindings=gamma = 2.0"], "gamma"),
    ],
)
def test_errors_of_the_user_are_one_line(monkeypatch, capsys, arguments, message):
    outcome = doctor(monkeypatch, capsys, *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert message in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_findings_are_no_failure_of_the_command(monkeypatch, capsys):
    outcome = doctor(
        monkeypatch,
        capsys,
        f"--gin_file={TINY}",
        "--gin_bindings=Environment.env_id = 'toys:Faulty-v0'",
        "--gin_bindings=Environment.env_options = {'fault': 'observation nan'}",
    )
    assert outcome.code == 0
    assert "environment fails" in outcome.out
