import shutil
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from event_files import hparams, packed, simple, text, write

from analysis import AnalysisError, EventLogWarning, load_configs, load_runs, load_status
from analysis import cache as cache_module


def values(table, tag):
    rows = table[table["tag"] == tag]
    return dict(zip(rows["step"], rows["value"], strict=True))


def test_the_package_and_a_table_come_without_tensorflow(make_run):
    folder = make_run("a", {"seed": 1}, [1.0])
    script = (
        "import sys, analysis;"
        "table = analysis.load_runs(sys.argv[1]);"
        "loaded = [name for name in ('tensorflow', 'keras', 'acx') if name in sys.modules];"
        "sys.exit(f'loaded {loaded}' if loaded or len(table) != 1 else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_columns_types_and_swept_hyperparameters(make_run):
    for seed in (0, 1):
        for gamma in (0.9, 0.99):
            config = {"gamma": gamma, "GAE.gamma": gamma, "Net.sizes": (64, 64), "seed": seed}
            root = make_run(f"sweep/g{gamma}/seed{seed}", config, [seed, gamma]).parents[2]
    table = load_runs(root)
    assert list(table)[:7] == ["run", "seed", "tag", "step", "wall_time", "value", "restart"]
    assert set(table["run"]) == {f"sweep/g{g}/seed{s}" for g in (0.9, 0.99) for s in (0, 1)}
    assert table["gamma"].dtype == "float64"
    assert table["step"].dtype == "int64"
    assert isinstance(table["run"].dtype, pd.CategoricalDtype)
    assert pd.api.types.is_integer_dtype(table["seed"])


def test_a_binding_that_follows_its_macro_is_one_column(make_run):
    for seed, gamma in enumerate((0.9, 0.99)):
        config = {"gamma": gamma, "GAE.gamma": gamma, "Net.sizes": (64, 64), "seed": seed}
        root = make_run(f"{seed}", config, [gamma]).parent
    table = load_runs(root)
    assert list(table)[7:] == ["gamma"]
    np.testing.assert_array_equal(table["gamma"], np.float32(table["value"]).astype(float).round(2))
    configs = load_configs(root)
    assert configs.attrs["swept"] == ["gamma"]
    assert configs["Net.sizes"].tolist() == ["(64, 64)"] * 2
    assert configs.loc["1", "GAE.gamma"] == 0.99


def test_hyperparameter_columns_keep_their_types(make_run):
    different = [
        {"flag": True, "count": 1, "rate": 1, "name": "a", "some": 2, "mixed": 1},
        {"flag": False, "count": 2, "rate": 0.5, "name": "b", "some": None, "mixed": "x"},
    ]
    for index, config in enumerate(different):
        root = make_run(str(index), config, [1.0]).parent
    dtypes = load_runs(root).dtypes.astype(str)
    assert dtypes[["flag", "count", "rate", "some"]].tolist() == [
        "bool",
        "int64",
        "float64",
        "Int64",
    ]
    assert pd.api.types.is_string_dtype(load_runs(root)["mixed"])


def test_T66_a_resumed_run_has_each_step_once(tmp_path):
    write(tmp_path / "events.out.tfevents.1000.h", [simple("x", s, s) for s in range(10)])
    write(tmp_path / "events.out.tfevents.2000.h", [simple("x", s, 100 + s) for s in range(6, 12)])
    with pytest.warns(EventLogWarning, match="4 points from before a restart"):
        table = load_runs(tmp_path)
    assert table["step"].tolist() == list(range(12))
    assert table["value"].tolist() == [0, 1, 2, 3, 4, 5, 106, 107, 108, 109, 110, 111]
    assert table["restart"].tolist() == [0] * 6 + [1] * 6


def test_T66_file_times_are_ordered_as_numbers(tmp_path):
    write(tmp_path / "events.out.tfevents.999.h", [simple("x", s, s) for s in range(3)])
    write(tmp_path / "events.out.tfevents.1000.h", [simple("x", s, s) for s in range(2, 6)])
    with pytest.warns(EventLogWarning):
        table = load_runs(tmp_path)
    assert table["value"].tolist() == [0, 1, 2, 3, 4, 5]
    assert table["restart"].tolist() == [0, 0, 1, 1, 1, 1]


def test_T66_a_step_written_twice_keeps_the_newest(tmp_path):
    events = [simple("x", s, v, wall_time=v) for s, v in ((0, 1), (1, 2), (1, 3), (2, 4))]
    write(tmp_path / "events.out.tfevents.1000.h", events)
    assert values(load_runs(tmp_path), "x") == {0: 1.0, 1: 3.0, 2: 4.0}


def test_orphans_of_rarely_written_tags_go_with_their_session(tmp_path):
    first = [packed(s, {"train": s} | ({"eval": s} if s % 5 == 0 else {})) for s in range(11)]
    write(tmp_path / "events.out.tfevents.1000.h", first)
    write(tmp_path / "events.out.tfevents.2000.h", [packed(s, {"train": -s}) for s in (8, 9)])
    with pytest.warns(EventLogWarning):
        table = load_runs(tmp_path)
    assert values(table, "eval") == {0: 0.0, 5: 5.0}
    assert max(values(table, "train")) == 9


def test_two_writers_of_different_tags_in_one_folder_keep_all_points(tmp_path):
    write(tmp_path / "events.out.tfevents.1000.h", [simple("a", s, s) for s in range(5)])
    write(tmp_path / "events.out.tfevents.1001.h", [simple("b", s, s) for s in range(5)])
    table = load_runs(tmp_path)
    assert len(values(table, "a")) == len(values(table, "b")) == 5


def test_a_clock_set_back_does_not_lose_the_first_session(tmp_path):
    write(tmp_path / "events.out.tfevents.2000.h", [simple("x", s, s) for s in range(10)])
    write(tmp_path / "events.out.tfevents.1000.h", [simple("x", s, 100 + s) for s in range(6, 12)])
    with pytest.warns(EventLogWarning, match="clock"):
        table = load_runs(tmp_path)
    assert table["value"].tolist() == [0, 1, 2, 3, 4, 5, 106, 107, 108, 109, 110, 111]


def test_damage_is_reported_with_its_place(make_run):
    folder = make_run("a", {"seed": 1}, [1.0, 2.0, 3.0])
    (path,) = folder.glob("events*")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.warns(EventLogWarning, match=r"bytes lost at offset .*incomplete"):
        table = load_runs(folder)
    assert table["value"].tolist() == [1.0, 2.0]
    assert len(table.attrs["remarks"]) == 1


def test_T73_groups_are_configurations_and_copies_count_once(make_run):
    for name, rate, value in (("baseline", 0.1, 1.0), ("treatment", 0.2, 9.0)):
        for seed in range(3):
            make_run(f"{name}/seed{seed}", {"rate": rate, "seed": seed}, [value])
    root = make_run("treatment/seed2", {"rate": 0.2, "seed": 2}, [9.0]).parents[1]
    shutil.copytree(root / "baseline/seed1", root / "copy-of-seed1")
    status = load_status(root)
    assert sorted(status.loc[["baseline/seed1", "copy-of-seed1"], "copy_of"] != "") == [False, True]
    counted = status[status["copy_of"] == ""]
    assert counted.groupby("label").size().to_dict() == {
        "pendulum rate=0.1": 3,
        "pendulum rate=0.2": 3,
    }
    final = load_runs(root).set_index("run")["value"]
    means = final.groupby(counted["label"]).mean()
    assert means.to_dict() == {"pendulum rate=0.1": 1.0, "pendulum rate=0.2": 9.0}


def test_labels_name_components_and_leave_out_what_only_others_have(make_run):
    configs = {
        "ppo": {"objective": "@Clipped()", "Clipped.range": 0.2},
        "a2c": {"objective": "@PolicyGradient()"},
        "one": {"A.x": 1},
        "other": {"B.x": 1},
    }
    for name, config in configs.items():
        text = "".join(f"{key} = {value}\n" for key, value in config.items())
        folder = make_run(name, {}, [1.0])
        (folder / "config.gin").write_text(text)
    labels = load_status(folder.parent)["label"].to_dict()
    assert labels["ppo"] == "pendulum objective=Clipped range=0.2"
    assert labels["a2c"] == "pendulum objective=PolicyGradient"
    assert labels["one"].startswith("pendulum x=1")  # told apart by the end
    assert len(set(labels.values())) == 4


def test_of_two_copies_the_one_that_finished_counts(make_run):
    make_run("b-first", {"seed": 1}, [1.0, 2.0])
    root = make_run("c-second", {"seed": 1}, [1.0, 2.0, 3.0], state="failed").parent
    assert load_status(root)["copy_of"].to_dict() == {"b-first": "", "c-second": "b-first"}


def test_status_without_or_with_a_broken_file(make_run):
    first = make_run("a", {"seed": 1}, [1.0], state="diverged", message="loss is NaN at step 7")
    second, third = make_run("b", {"seed": 2}, [1.0]), make_run("c", {"seed": 3}, [1.0])
    (second / "status.json").unlink()
    (third / "status.json").write_text("{")
    status = load_status(first.parent)
    assert status["state"].tolist() == ["diverged", "unknown", "unreadable"]
    assert status.loc["a", "message"] == "loss is NaN at step 7"
    assert status["seed"].tolist() == [1, 2, 3]


def test_runs_of_cleanrl_load_with_names_seeds_and_settings(tmp_path):
    settings = "|param|value|\n|-|-|\n|gamma|0.99|\n|env_id|CartPole-v1|\n|seed|7|\n|cuda|True|"
    for seed in (1, 2):
        events = [text("hyperparameters", settings.replace("7", str(seed)))]
        episodes = ((10, 20.0), (10, 40.0), (30, 5.0))
        events += [simple("charts/episodic_return", s, v) for s, v in episodes]
        name = f"CartPole-v1__ppo__{seed}__170000000{seed}"
        write(tmp_path / name / "events.out.tfevents.1700000000.h", events)
    table = load_runs(tmp_path, tags="rollout/ep_rew_mean", names="cleanrl")
    first = table[table["seed"] == 1]
    assert values(first, "rollout/ep_rew_mean") == {10: 30.0, 30: 5.0}
    configs = load_configs(tmp_path)
    assert configs["gamma"].tolist() == [0.99, 0.99]
    assert configs["cuda"].tolist() == [True, True]
    assert load_status(tmp_path)["group"].nunique() == 1


def test_runs_of_stable_baselines3_are_grouped_by_folder(tmp_path):
    for name in ("PPO_1", "PPO_2", "A2C_1"):
        write(tmp_path / name / "events.out.tfevents.5.h.0", [simple("rollout/ep_rew_mean", 1, 2)])
    assert load_status(tmp_path)["label"].tolist() == ["A2C", "PPO", "PPO"]


@pytest.mark.parametrize("frame", ["```\n{}\n```", "{}", "    {}"], ids=["fence", "bare", "indent"])
def test_a_gin_config_in_a_text_summary_serves_where_no_file_does(tmp_path, frame):
    lines = ["gamma = 0.9", "GAE.gamma = %gamma", "seed = 4"]
    gin = frame.format(("\n    " if frame[0] == " " else "\n").join(lines))
    events = [text("config/operative_gin", gin), simple("x", 1, 2)]
    write(tmp_path / "a" / "events.out.tfevents.5.h", events)
    assert load_configs(tmp_path).loc["a"].to_dict() == {"gamma": 0.9, "GAE.gamma": 0.9, "seed": 4}


def test_hyperparameters_of_the_hparams_plugin_are_a_configuration(tmp_path):
    for seed in (1, 2):
        settings = hparams({"lr": 0.1 * seed, "optimizer": "adam"})
        write(tmp_path / f"run_{seed}" / "events.out.tfevents.5.h", [settings, simple("x", 1, 2)])
    table = load_runs(tmp_path)
    assert table["lr"].tolist() == [0.1, 0.2]
    assert load_configs(tmp_path)["optimizer"].tolist() == ["adam", "adam"]
    assert sorted(table["tag"].unique()) == ["x"]


def test_the_copy_of_a_large_file_gives_the_same_and_is_renewed(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(cache_module, "WORTHWHILE", 0)
    monkeypatch.setattr(cache_module, "SETTLED", -1e9)
    path = write(
        tmp_path / "events.out.tfevents.1.h", [packed(s, {"a": s, "b": 0}) for s in (1, 2)]
    )
    first = load_runs(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(cache_module, "read_event_file", None)  # must not be needed
        pd.testing.assert_frame_equal(load_runs(tmp_path), first)
        only = load_runs(tmp_path, tags="b")
    assert only["tag"].unique().tolist() == ["b"]
    write(path, [packed(s, {"a": s}) for s in (1, 2, 3)])
    assert len(load_runs(tmp_path)) == 3
    for copy in cache_module._place(path).parent.iterdir():
        copy.write_bytes(b"broken")
    assert len(load_runs(tmp_path)) == 3


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda root: root / "missing", "doesn't exist"),
        (lambda root: root, "no folder there holds a TensorBoard event file"),
        (lambda root: [], "no path was given"),
        (lambda root: root / "*.none", "doesn't exist"),
        (lambda root: write(root / "file", []), "is not a folder"),
        (
            lambda root: write(root / "a" / "events.out.tfevents.1.h", []).parent,
            "nothing was logged",
        ),
    ],
)
def test_bad_input_gets_one_clear_line(tmp_path, prepare, message):
    with pytest.raises(AnalysisError, match=message) as caught:
        load_runs(prepare(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_missing_tag_names_the_nearest_ones(make_run):
    folder = make_run("a", {}, [1.0])
    with pytest.raises(AnalysisError, match="'eval/mean_rewrad'; there is eval/mean_reward"):
        load_runs(folder, tags="eval/mean_rewrad")


def test_a_broken_config_names_its_line(make_run):
    folder = make_run("a", {}, [1.0])
    (folder / "config.gin").write_text("gamma = 0.9\nGAE.lambda_ = = 1\n")
    with pytest.raises(AnalysisError, match=r"config.gin, line 2: not a gin binding"):
        load_configs(folder)


def test_T75_no_chained_assignment_or_other_warning(make_run):
    folder = make_run("a", {"seed": 1, "gamma": 0.9}, [1.0, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = load_runs(folder)
        load_status(folder), load_configs(folder)
    table.loc[1, "value"] = 9.0
    assert table["value"].tolist() == [1.0, 9.0]
    assert pd.api.types.is_string_dtype(load_status(folder)["state"])


def test_T69_a_hundred_runs_with_a_tag_filter(make_run):
    for index in range(100):
        root = make_run(f"{index:03d}", {"seed": index}, [float(index)] * 20).parent
    table = load_runs(root, tags="eval/mean_reward")
    assert table.groupby("run", observed=True)["value"].mean().tolist() == list(range(100))
