"""Successive halving stops the poor points early, and changes nothing for the others."""

import csv

from commands import run_here
from sweeping import TINY, run_sweep, table

from acx.checkpoints import load as load_checkpoint

HALVING = f"""
Sweep.experiment = '{TINY}'
Sweep.strategy = @SuccessiveHalving()
Sweep.seeds = 1
Sweep.bindings = {{'Experiment.total_steps': 640}}
SuccessiveHalving.candidates = @Grid()
SuccessiveHalving.reduction = 2
SuccessiveHalving.stages = 2
Grid.axes = {{'learning_rate': [1e-4, 1e-3, 1e-2, 1e-1]}}
"""


def score(folder, env_steps):
    """The training return at a step, read from the run's table."""
    with open(folder / "metrics.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if int(row["step"]) <= env_steps]
    return float(rows[-1]["rollout/ep_rew_mean"])


def test_the_better_half_is_trained_to_the_end_as_if_alone(tmp_path, monkeypatch, capsys):
    file, folder = tmp_path / "halving.gin", tmp_path / "runs"
    file.write_text(HALVING)
    outcome = run_sweep(file, folder, "--workers=1")
    assert outcome.code == 0, outcome.err
    rows = table(folder)
    finished = [name for name, row in rows.items() if row["state"] == "finished"]
    paused = [name for name, row in rows.items() if row["state"] == "paused"]
    assert len(finished) == len(paused) == 2
    assert {rows[name]["env_steps"] for name in paused} == {"320"}
    assert min(score(folder / name, 320) for name in finished) >= max(
        score(folder / name, 320) for name in paused
    )

    again = run_sweep(file, folder, "--workers=1")
    assert again.code == 0
    assert table(folder) == rows

    name = finished[0]
    alone = run_here(
        monkeypatch,
        capsys,
        f"--gin_file={TINY}",
        "--gin_bindings=Experiment.total_steps = 640",
        f"--gin_bindings=learning_rate = {rows[name]['learning_rate']}",
        f"--run_dir={tmp_path / 'alone'}",
    )
    assert alone.code == 0, alone.err
    ours = load_checkpoint(folder / name / "checkpoints" / "step-000000000640.ckpt")
    theirs = load_checkpoint(tmp_path / "alone" / "checkpoints" / "step-000000000640.ckpt")
    assert {k: v.tolist() for k, v in ours.items()} == {k: v.tolist() for k, v in theirs.items()}
