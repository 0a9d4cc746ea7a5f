"""The sweep in TensorBoard's HPARAMS tab: by its data, and as a user sees it."""

import shutil

import numpy as np
import pytest
from browser import EXECUTABLE, ask, tensorboard, visit
from sweeping import CUBE, CUBE_TRIALS, finish, run_sweep, start_sweep, table

from analysis import load_configs, load_runs, load_status

SEEDED = CUBE.replace("Sweep.seeds = 1", "Sweep.seeds = 2").replace(
    ", 'learning_rate': [1e-3, 1e-2]", ""
)


def groups_of(address):
    query = {
        "startIndex": 0,
        "sliceSize": 500,
        "allowedStatuses": ["STATUS_SUCCESS"],
        "colParams": [],
        "aggregationType": "AGGREGATION_AVG",
    }
    rows = ask(address, "/data/plugin/hparams/session_groups", query)
    return (rows or {}).get("sessionGroups", [])


def all_known(count):
    """Whether the tab knows so many finished runs: they come after the list of runs."""

    def ready(address):
        found = [session for group in groups_of(address) for session in group["sessions"]]
        return len([session for session in found if session.get("metricValues")]) >= count

    return ready


@pytest.mark.slow
def test_one_row_for_each_point_with_typed_columns_and_the_return_first(tmp_path):
    file, folder = tmp_path / "sweep.gin", tmp_path / "runs"
    file.write_text(SEEDED)
    assert finish(start_sweep(file, folder, "--workers=1")).code == 0
    with tensorboard(folder, all_known(8)) as address:
        experiment = ask(address, "/data/plugin/hparams/experiment", {})
        rows = groups_of(address)
    infos = {info["name"]: info["type"] for info in experiment["hparamInfos"]}
    assert infos == {"gamma": "DATA_TYPE_FLOAT64", "clip_norm": "DATA_TYPE_STRING"}
    assert next(info["name"]["tag"] for info in experiment["metricInfos"]) == "eval/mean_reward"
    groups = {group["name"]: group for group in rows}
    assert set(groups) == {
        "gamma=0.99,clip_norm=0.5",
        "gamma=0.99,clip_norm=None",
        "gamma=0.9,clip_norm=0.5",
        "gamma=0.9,clip_norm=None",
    }
    trials = table(folder)
    for name, group in groups.items():
        assert len(group["sessions"]) == 2
        value = next(
            value["value"]
            for value in group["metricValues"]
            if value["name"]["tag"] == "eval/mean_reward"
        )
        seeds = [float(trials[f"{name}/seed{seed}"]["mean_reward"]) for seed in (0, 1)]
        assert value == pytest.approx(np.mean(seeds), rel=1e-5)


def described(folder):
    """Which parts of the tab's data lie in the folder of each trial, by trial."""
    parts = {}
    for path in folder.glob("*/*/events.out.tfevents.*_info"):
        trial = str(path.parent.relative_to(folder))
        parts[trial] = sorted([*parts.get(trial, []), path.suffix])
    return parts


def test_what_finished_without_a_driver_is_described_by_the_next_one(cube, tmp_path):
    folder = tmp_path / "runs"
    shutil.copytree(cube.folder, folder)
    whole = described(folder)
    assert set(whole) == set(CUBE_TRIALS)
    assert all(parts == [".session_end_info", ".session_start_info"] for parts in whole.values())
    first, second, *_ = CUBE_TRIALS
    for path in [
        *(folder / first).glob("events.*.session_end_info"),
        *(folder / second).glob("events.*.session_*_info"),
        *folder.glob("*/*/events.*.experiment"),
    ]:
        path.unlink()
    assert described(folder) != whole
    assert run_sweep(cube.file, folder).code == 0
    assert described(folder) == whole
    assert len(list(folder.glob("*/*/events.*.experiment"))) == 1


def test_the_analysis_reads_a_sweep_as_any_runs(cube):
    status = load_status(cube.folder)
    assert status["state"].tolist() == ["finished"] * 8
    assert set(load_configs(cube.folder).attrs["swept"]) == {"gamma", "learning_rate", "clip_norm"}
    finals = load_runs(cube.folder, "eval/mean_reward")
    assert len(finals) == 8


@pytest.mark.slow
@pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium here")
def test_the_tab_shows_the_points(cube, tmp_path):
    shutil.copytree(cube.folder, tmp_path / "runs")
    with tensorboard(tmp_path / "runs", all_known(8)) as address:

        async def look(page):
            await page.open(f"{address}/#hparams")
            return await page.text("clip_norm", "evaluation return")

        text = visit(tmp_path / "profile", look)
    assert "gamma" in text
