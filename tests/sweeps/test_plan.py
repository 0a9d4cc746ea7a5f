"""From a gin file to trials, and what is wrong with a gin file."""

import pytest
from sweeping import REPOSITORY, TINY

from acx import config
from acx.errors import ConfigError
from acx.experiment import Experiment
from sweeps.axes import axis_values, columns, describe_axes, domains
from sweeps.folder import save_plan
from sweeps.jobs import Job
from sweeps.plan import load_plan, named_points
from sweeps.training import check


@pytest.fixture
def plan_of(tmp_path):
    def plan(*lines, axes="{'gamma': [0.9, 0.99]}"):
        file = tmp_path / "sweep.gin"
        head = [f"Sweep.experiment = '{TINY}'", "Sweep.strategy = @Grid()", f"Grid.axes = {axes}"]
        file.write_text("\n".join([*head, *lines]))
        return load_plan(str(file))

    return plan


def test_trials_are_points_times_seeds(plan_of):
    plan = plan_of("Sweep.seeds = [3, 5]", "Sweep.bindings = {'total_steps': 64}")
    assert [trial.name for trial in plan.trials] == [
        "gamma=0.9/seed3",
        "gamma=0.9/seed5",
        "gamma=0.99/seed3",
        "gamma=0.99/seed5",
    ]
    assert plan.trials[3].bindings == ("total_steps = 64", "gamma = 0.99", "seed = 5")
    assert plan.trials[0].total_steps == 32  # the toy experiment binds the parameter, not a macro


def experiment_of(trial):
    return config.build(Experiment, config.load(trial.files, trial.bindings))


def test_T56_a_swept_macro_changes_all_its_users_and_beats_what_all_trials_share(plan_of):
    plan = plan_of(
        "Sweep.seeds = 1",
        "Sweep.bindings = {'gamma': 0.5, 'GAE.gae_lambda': '%gamma', 'clip_norm': 0.25}",
    )
    for trial, gamma in zip(plan.trials, (0.9, 0.99), strict=True):
        experiment = experiment_of(trial)
        assert experiment.learner.advantage.gamma == gamma
        assert experiment.learner.advantage.gae_lambda == gamma
        assert experiment.learner.actor_optimizer.clip_norm == 0.25  # 0.5 in the experiment
        assert experiment.learner.critic_optimizer.clip_norm == 0.25


def test_T63_each_trial_has_the_seed_that_its_folder_names(plan_of):
    plan = plan_of("Sweep.seeds = [3, 5]", axes="{'gamma': [0.9]}")
    assert {trial.name: experiment_of(trial).seed for trial in plan.trials} == {
        "gamma=0.9/seed3": 3,
        "gamma=0.9/seed5": 5,
    }


@pytest.mark.parametrize(
    ("name", "points", "seeds"),
    [
        ("cartpole_grid", 18, 3),
        ("optimizer_decay", 18, 2),
        ("pendulum_grid", 27, 3),
        ("sparse_gamma", 4, 5),
    ],
)
def test_every_point_of_the_sweeps_in_the_repository_can_be_built(monkeypatch, name, points, seeds):
    monkeypatch.chdir(REPOSITORY)
    plan = load_plan(f"sweeps/{name}.gin")
    assert (len(plan.points), len(plan.seeds)) == (points, seeds)
    assert len(plan.trials) == points * seeds
    firsts = [trial for trial in plan.trials if trial.seed == plan.seeds[0]]
    assert check([Job("", trial.files, trial.bindings, trial.point, {}) for trial in firsts]) == ""


def test_there_are_no_other_sweeps():
    assert len(list((REPOSITORY / "sweeps").glob("*.gin"))) == 4


def test_budgets_follow_the_point(plan_of):
    plan = plan_of("Sweep.seeds = 1", axes="{'Experiment.total_steps': [64, 128]}")
    assert [trial.total_steps for trial in plan.trials] == [64, 128]
    assert [trial.name for trial in plan.trials] == [
        "total_steps=64/seed0",
        "total_steps=128/seed0",
    ]


@pytest.mark.parametrize("seeds", ["0", "[]", "[1, 1]", "[-1]", "'three'", "2.5"])
def test_seeds_that_make_no_sense(plan_of, seeds):
    with pytest.raises(ConfigError, match=r"Sweep\.seeds|seeds"):
        plan_of(f"Sweep.seeds = {seeds}")


def test_errors_name_file_and_nearest_spelling(plan_of):
    with pytest.raises(ConfigError, match=r"sweep\.gin:4: Sweep has no parameter 'sedes'.*'seeds'"):
        plan_of("Sweep.sedes = 3")
    with pytest.raises(ConfigError, match=r"sweep\.gin:3.*needs a list"):
        plan_of(axes="{'gamma': 0.9}")


def test_a_missing_experiment_is_named(tmp_path):
    file = tmp_path / "sweep.gin"
    file.write_text(
        "Sweep.experiment = 'absent.gin'\nSweep.strategy = @Grid()\nGrid.axes = {'gamma': [1]}"
    )
    with pytest.raises(ConfigError, match=r"no such gin file: absent\.gin"):
        load_plan(str(file))


def test_names_are_folders_that_a_person_can_read():
    assert list(named_points([{"GAE.gamma": 0.9, "x": "a/b c"}])) == ["gamma=0.9,x=a_b_c"]
    # where short names would be the same, they are not short
    assert list(named_points([{"A.x": 1, "B.x": 2}])) == ["A.x=1,B.x=2"]


def test_points_that_read_the_same_get_different_names():
    names = list(named_points([{"x": 1}, {"x": 1.0}, {"x": 0.12345678}, {"x": 0.12345679}]))
    assert len(set(names)) == 4
    assert all(name.startswith("x=") for name in names)


def test_long_names_are_cut():
    first, second = named_points([{"x": "a" * 500}, {"x": "a" * 499 + "b"}])
    assert first != second
    assert len(first) < 140


def test_axes_as_columns_and_in_words(plan_of):
    many = [round(0.1 * i, 1) for i in range(1, 13)]
    plan = plan_of(axes=f"{{'gamma': {many}, 'clip_norm': [0.5, None]}}")
    assert axis_values(plan, "clip_norm") == [0.5, None]
    assert domains(plan) == {"gamma": many, "clip_norm": ["0.5", "None"]}
    assert columns(plan)["gamma=0.2,clip_norm=None"] == {"gamma": 0.2, "clip_norm": "None"}
    assert describe_axes(plan) == {
        "gamma": "0.1, 0.2, 0.3, 0.4, …, 1.2",
        "clip_norm": "0.5, None",
    }


def test_a_folder_keeps_one_base(plan_of, tmp_path):
    save_plan(tmp_path, plan_of())
    save_plan(tmp_path, plan_of("Sweep.seeds = 5", axes="{'gamma': [0.5], 'clip_norm': [1.0]}"))
    with pytest.raises(ConfigError, match=r"learning_rate = 0\.01 \(now 0\.5\)"):
        save_plan(tmp_path, plan_of("Sweep.bindings = {'learning_rate': 0.5}"))
