"""Diagnoses on histories made by hand: each fires on its sickness, and none on a healthy run."""

import csv
import json
import math

import numpy as np
import pytest
from commands import TESTS, TINY
from gymnasium.spaces import Box, Discrete
from rich.console import Console

from acx import config
from acx.experiment import Experiment
from acx.health import DIAGNOSES, Context, Examination, History, context_of, examine
from acx.health.checkup import examine_environment, play
from acx.health.context import Names
from acx.health.observer import HealthObserver
from acx.observers import CsvWriter
from acx.reports import Report

TOTAL = 100_000
REPORTS = 40  # of 500 steps each: a fifth of the budget

HEALTHY = {
    "rollout/episodes": np.arange(1, REPORTS + 1) * 20,
    "rollout/ep_rew_mean": np.linspace(20, 120, REPORTS),
    "rollout/ep_rew_min": 9.0,
    "rollout/ep_rew_max": 200.0,
    "rollout/ep_len_mean": 60.0,
    "train/approx_kl": 0.01,
    "train/clip_fraction": 0.15,
    "train/entropy": 0.5,
    "train/explained_variance": 0.6,
    "train/value_loss": 20.0,
    "train/value_mean": 9.0,
    "train/return_mean": 6.0,
    "train/return_std": 8.0,
    "train/grad_norm_actor": 0.3,
    "train/grad_norm_critic": 5.0,
    "train/clipped_actor": 0.2,
    "train/clipped_critic": 0.9,
    "train/observation_rms": 1.0,
    "train/observation_max": 4.0,
    "train/reward_nonzero": 1.0,
    "train/repeated_observations": 0.0,
    "train/equal_environments": 0.0,
    "train/terminated_share": 0.016,
    "train/truncated_share": 0.001,
    "train/idle_units_actor": 0.0,
    "train/idle_units_critic": 0.0,
    "time/collect_s": 0.2,
    "time/update_s": 0.2,
    "time/report_s": 0.01,
}
FLAT = {"rollout/ep_rew_mean": 20.0}  # nothing is gained
GAUSSIAN = ["Agent.policy_head = @GaussianHead()"]
SIGMA = {"train/std": 0.6, "train/actions_at_bounds": 0.1, "train/means_at_bounds": 0.05}
# As the experiments do: every rate, discount and clip by a macro, and the scale too.
BASE = [f"Experiment.total_steps = {TOTAL}", "Learner.reward_scale = %scale", "scale = 1.0"]


def context(*bindings, failure="", space=None):
    experiment = config.build(Experiment, config.load([str(TINY)], [*BASE, *bindings]))
    experiment.action_space = space
    return context_of(experiment, config.resolved()).failed(failure)


def history(changes=None, total=TOTAL, whole=False):
    columns = HEALTHY | (changes or {})
    made = History(total, whole)
    for i in range(REPORTS):
        row = {tag: np.broadcast_to(values, REPORTS)[i] for tag, values in columns.items()}
        made.append((i + 1) * 500, row)
    return made


def found(made, of):
    return {finding.name: finding for finding in examine(made, of, set())}


def decay(share):
    """A learning rate that falls to zero in a share of the run."""
    return [
        "OptimizerFactory.learning_rate = @LinearDecay()",
        "LinearDecay.initial_value = %learning_rate",
        f"LinearDecay.decay_steps = {int(share * TOTAL)}",
        "LinearDecay.unit = 'env_steps'",
    ]


# name: (bindings of the run, what its reports say, a number that is told, the binding to try)
CASES = {
    # √(3000² + 4000²) = 5000: times 0.001 it is 5.
    "value scale": (
        [],
        {"train/return_mean": 3000.0, "train/return_std": 4000.0},
        "3,000 with a spread of 4,000",
        "scale = 0.001",
    ),
    # A variance of 8² = 64 against an error of 200.
    "critic loss high": ([], {"train/value_loss": 200.0}, "error of 200", "learning_rate = 0.0003"),
    "critic does not learn": (
        ["learning_rate = 1e-6"],
        {"train/explained_variance": -0.02},
        "-2%",
        "learning_rate = 0.001",
    ),
    # The KL grows with the square of the step: 0.1·√(0.01/1) = 0.01, but 0.001 is usual at most.
    "policy moves too far": (
        ["learning_rate = 0.1"],
        {"train/approx_kl": 1.0},
        "divergence of 1;",
        "learning_rate = 0.001",
    ),
    # 6250 iterations: 6250²·1e-9 = 0.04.
    "policy barely moves": (
        ["learning_rate = 1e-6", "Learner.epochs = 2"],
        {"train/approx_kl": 1e-9},
        "learning rate 1e-6",
        "learning_rate = 0.001",
    ),
    # 5 % of ln 2 is 0.035.
    "entropy collapsed": (
        ["learning_rate = 0.02"],
        {"train/entropy": 0.03, **FLAT},
        "0.03 of at most 0.693",
        "learning_rate = 0.002",
    ),
    # 90 % of ln 2 is 0.624.
    "policy stays random": (
        ["Learner.entropy_coef = 0.5"],
        {"train/entropy": 0.63},
        "bonus of 0.5",
        "Learner.entropy_coef = 0.01",
    ),
    # σ = 5 with actions from -2 to 2.
    "actions at the bounds": (
        GAUSSIAN,
        SIGMA | {"train/std": 5.0, "train/actions_at_bounds": 0.7},
        "70% of the actions",
        "GaussianHead.initial_log_std = 0.7",
    ),
    "too little exploration": (
        [*GAUSSIAN, "GaussianHead.initial_log_std = -4.0"],
        SIGMA | FLAT | {"train/std": 0.018},
        "0.018",
        "GaussianHead.initial_log_std = 0.7",
    ),
    "idle units": (
        ["MLP.activation = 'relu'", "learning_rate = 3e-4"],
        FLAT | {"train/idle_units_actor": 0.8},
        "80% of the actor's",
        "MLP.activation = 'tanh'",
    ),
    "observation scale": (
        [],
        {"train/observation_rms": 250.0},
        "250",
        "Agent.observation_normalizer = @ObservationNormalizer()",
    ),
    "repeated steps": ([], {"train/repeated_observations": 0.4}, "40%", ""),
    "equal environments": ([], {"train/equal_environments": 1.0}, "all 2 environments", ""),
    "no reward signal": (
        [],
        {f"rollout/ep_rew_{what}": 7.0 for what in ("min", "mean", "max")},
        "800 episodes so far returned exactly 7",
        "",
    ),
    # A horizon of 10,000 steps is 50 episodes of 200; a tenth of an episode is γ = 1 − 1/20.
    "discount too high": (
        ["gamma = 0.9999"],
        {
            "rollout/ep_len_mean": 200.0,
            "train/terminated_share": 0.0,
            "train/truncated_share": 0.005,
        },
        "10,000 steps",
        "gamma = 0.95",
    ),
    # A horizon of 2 steps in episodes of 60: γ = 1 − 1/60, to one digit 0.98.
    "discount too low": (["gamma = 0.5"], {}, "ahead 2 steps", "gamma = 0.98"),
    # Zero after 25 % of the run; below a tenth after 90 % of that, 22.5 %: seen at 23 %.
    "learning rate ends early": (
        decay(0.25),
        {},
        "first 23% of the run",
        f"LinearDecay.decay_steps = {TOTAL}",
    ),
    # 100,000 steps in rollouts of 4096·2 are 12.
    "too few updates": (
        ["Experiment.rollout_length = 4096"],
        {},
        "12 updates",
        "Experiment.rollout_length = 500",
    ),
    # Rollouts of 8·2 rows.
    "tiny minibatches": (["Learner.minibatch_size = 4"], {}, "4 of a rollout's 16", None),
    "gradients always clipped": (
        ["clip_norm = 1e-8"],
        {"train/clipped_actor": 1.0},
        "norm of 0.3",
        "clip_norm = 0.5",
    ),
    "slow parts": ([], {"time/report_s": 0.2}, "33%", "Experiment.log_every = 7"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_sick_history_is_diagnosed_with_a_binding_that_can_be_used(name):
    bindings, changes, seen, binding = CASES[name]
    space = Box(-2.0, 2.0, (1,)) if bindings[:1] == GAUSSIAN else Discrete(2)
    finding = found(history(changes), context(*bindings, space=space))[name]
    assert seen in finding.seen
    if binding is not None:
        assert finding.binding == binding
    assert finding.remedy
    assert finding.why
    if finding.binding:
        changed = [*BASE, *bindings, finding.binding]
        config.build(Experiment, config.load([str(TINY)], changed))


def test_slow_environments_are_told_to_use_the_cores_that_there_are(monkeypatch):
    # Reports are 500 steps apart: 0.06 s of them are 120 µs a step, 0.06/0.065 = 92 % of the time.
    slow = history({"time/collect_s": 0.06, "time/update_s": 0.004, "time/report_s": 0.001})
    for cores, vectorization, told in (
        (2, "sync", True),
        (1, "sync", False),
        (2, "async", False),
    ):
        monkeypatch.setattr("acx.health.data.available_cores", lambda cores=cores: cores)
        found_now = found(slow, context(f"Environment.vectorization = '{vectorization}'"))
        assert ("slow parts" in found_now) is told
        if told:
            finding = found_now["slow parts"]
            assert "92%" in finding.seen
            assert finding.binding == "Environment.vectorization = 'parallel'"


@pytest.mark.parametrize("bindings", [[], GAUSSIAN, decay(0.7)])
def test_a_healthy_history_has_no_finding(bindings):
    changes, space = {}, Discrete(2)
    if bindings is GAUSSIAN:
        changes, space = SIGMA, Box(-2.0, 2.0, (1,))
    assert found(history(changes), context(*bindings, space=space)) == {}


def test_every_diagnosis_is_tested_here_and_in_the_guide():
    elsewhere = {
        "non-finite value",
        "episodes cut short",
        "evaluation gap",
        "critic drowns the policy",
    }
    names = {diagnosis.name for diagnosis in DIAGNOSES}
    assert set(CASES) | elsewhere == names
    guide = (TESTS.parent / "docs" / "doctor.md").read_text()
    assert [name for name in names if f"| {name} |" not in guide] == []


def test_what_a_shared_torso_suffers_from():
    shared = context("Agent.critic_torso = None", "Learner.critic_optimizer = None")
    norms = {"train/grad_norm_critic": 8.0, "train/clipped_agent": 1.0}
    assert "critic drowns the policy" not in found(history(norms), shared)  # 27 times 0.3
    norms = {"train/grad_norm_critic": 90.0, "train/clipped_agent": 1.0}
    finding = found(history(norms), shared)["critic drowns the policy"]
    assert finding.binding == "Learner.value_coef = 0.002"  # 0.5·0.3/90


def test_a_time_limit_below_the_registered_one_is_named():
    cut = {"train/terminated_share": 0.0, "train/truncated_share": 0.02}
    short = context(
        "Environment.env_id = 'CartPole-v1'", "Environment.env_options = {'max_episode_steps': 50}"
    )
    finding = found(history(cut), short)["episodes cut short"]
    assert "100% of the episodes are cut after 50 steps" in finding.seen
    assert "500" in finding.seen
    assert finding.binding == "Environment.env_options = None"
    assert "episodes cut short" not in found(history(), short)  # 1 of 17 is cut


def test_evaluations_below_all_of_training_are_told():
    made = history()
    for step, mean in ((9_000, -100.0), (18_000, -95.0)):
        made.append_evaluation(step, mean, 2.0)
    finding = found(made, context())["evaluation gap"]
    assert "-95" in finding.seen  # training returned 9 to 200: half of that spread below 9 is -86.5
    made = history()
    for step, mean in ((9_000, -80.0), (18_000, -80.0)):
        made.append_evaluation(step, mean, 2.0)
    assert "evaluation gap" not in found(made, context())


def test_the_reason_of_a_failed_run_is_a_finding():
    message = (
        "the actor's grad_norm_actor is not finite in gradient step 3 of this iteration (83 in "
        "all): all weights are as before the iteration. Likely causes: …"
    )
    finding = found(history(), context("clip_norm = 1e999", failure=message))["non-finite value"]
    assert finding.severity == "error"
    assert "gradient step 3" in finding.seen
    assert finding.binding == "clip_norm = 0.5"


def test_a_short_sickness_is_none():
    values = np.where(np.arange(REPORTS) % 3, 0.01, 0.6)  # a KL of 0.6 in every third report
    assert "policy moves too far" not in found(history({"train/approx_kl": values}), context())
    large = np.where(np.arange(REPORTS) == 39, 5000.0, 6.0)
    assert "value scale" not in found(history({"train/return_mean": large}), context())


def test_a_flag_must_last_for_its_share_of_the_budget():
    made = history()
    flags = np.arange(REPORTS) >= 30  # since step 15,000; now is step 20,000
    assert made.lasted(flags, share=0.05)
    assert not made.lasted(flags, share=0.051)
    assert not made.lasted(flags, share=0.05, reports=11)
    assert made.step == 20_000
    assert made.share == 0.2


def test_a_tag_that_comes_late_or_seldom_is_nan_elsewhere():
    made = History(1000)
    made.append(10, {"a": 1.0})
    made.append(20, {"a": 2.0, "b": 5.0})
    made.append(30, {"a": 3.0})
    np.testing.assert_array_equal(made["b"], [math.nan, 5.0, math.nan])
    assert made.recent("b") == 5.0
    for i in range(200):
        made.append(40 + i, {"a": float(i)})
    assert len(made["b"]) == len(made["a"]) == 203
    np.testing.assert_array_equal(made["a"][-2:], [198.0, 199.0])


def test_a_binding_goes_to_the_macro_that_the_parameter_takes():
    names = Names("GAE.gamma = %gamma\ncritic/ClippedOptimizer.clip_norm = %clip\n")
    assert names.line("GAE.gamma", 0.9) == "gamma = 0.9"
    assert names.line("ClippedOptimizer.clip_norm", 0.5, "critic") == "clip = 0.5"
    assert names.line("ClippedOptimizer.clip_norm", 0.5) == "ClippedOptimizer.clip_norm = 0.5"
    names = Names(
        "critic/OptimizerFactory.learning_rate = 1e-07\n"
        "OptimizerFactory.learning_rate = @LinearDecay()\n"
    )
    bound = names.line("OptimizerFactory.learning_rate", 0.001, "critic")
    assert bound == "critic/OptimizerFactory.learning_rate = 0.001"


def test_targets_that_hardly_differ_are_no_fault_of_the_critic():
    flat = {"train/return_mean": 50.0, "train/return_std": 0.4, "train/explained_variance": -0.3}
    assert "critic does not learn" not in found(history(flat), context())
    spread = flat | {"train/return_std": 0.6}  # 1 % of 50 is 0.5
    assert "critic does not learn" in found(history(spread), context())


def test_with_normalized_values_no_cause_is_sought_in_the_scale_of_rewards():
    large = {
        "train/return_mean": 90.0,
        "train/return_std": 30.0,
        "train/value_loss": 2000.0,
        "train/explained_variance": -1.0,
    }
    normalized = context("Agent.value_normalizer = @ValueNormalizer()")
    assert {"critic loss high", "critic does not learn"} <= set(found(history(large), context()))
    only = found(history(large), normalized)
    assert set(only) == {"critic does not learn"}
    assert "learning_rate" in only["critic does not learn"].binding


def test_without_any_reward_the_scale_of_targets_says_nothing():
    nothing = {
        "train/return_mean": 1e-4,
        "train/return_std": 5e-3,
        "train/explained_variance": -1.0,
    }
    assert {"value scale", "critic does not learn"} <= set(found(history(nothing), context()))
    nothing["train/reward_nonzero"] = 0.0
    assert found(history(nothing), context()) == {}


class Silence:
    def __call__(self, *_):
        pass


def test_the_table_of_a_run_tells_what_was_found_live(tmp_path):
    sick = history({"train/observation_rms": 99.0, "train/approx_kl": 1 / 3})
    of = context("learning_rate = 0.1")
    console = Console(file=open(tmp_path / "out", "w"), width=400)  # noqa: SIM115
    notes = []
    observer = HealthObserver(
        tmp_path, Examination(of), console, lambda step, tag, _: notes.append((step, tag))
    )
    table = CsvWriter(tmp_path)
    for i, step in enumerate(sick.steps):
        scalars = {tag: float(sick[tag][i]) for tag in HEALTHY}
        report = Report(int(step), i + 1, scalars, [])
        table.on_report(report)
        observer.on_report(report)
    table.close()
    live = json.loads((tmp_path / "health.json").read_text())
    assert [finding["name"] for finding in live] == ["observation scale", "policy moves too far"]
    assert notes == [
        (1000, "health/observation_scale"),  # 1 % of the budget and two reports
        (3000, "health/policy_moves_too_far"),  # 3 %
    ]
    replayed = Examination(of)
    replayed.replay(tmp_path / "metrics.csv")
    assert [finding.as_json() for finding in replayed.findings] == live
    resumed = HealthObserver(tmp_path, Examination(of), console, Silence(), start_steps=20_000)
    assert [finding.as_json() for finding in resumed.findings] == live
    console.file.close()
    shown = (tmp_path / "out").read_text()
    assert shown.count("observation scale: ") == 1
    assert "Try Agent.observation_normalizer = @ObservationNormalizer()" in shown


def test_a_row_that_is_only_half_written_is_left_out(tmp_path):
    with open(tmp_path / "metrics.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "train/value_loss", "train/approx_kl"])
        writer.writerow([16, 1.0, 0.01])
        file.write("32,0.9,-")
    examination = Examination(context())
    examination.replay(tmp_path / "metrics.csv")
    assert examination.history.step == 16


def test_a_diagnosis_that_fails_ends_the_checks_and_not_the_run(tmp_path, monkeypatch):
    def fail(*_):
        raise AttributeError("no gamma")

    examination = Examination(context())
    monkeypatch.setattr("acx.health.examination.examine", fail)
    console = Console(file=open(tmp_path / "out", "w"))  # noqa: SIM115
    observer = HealthObserver(tmp_path, examination, console, Silence())
    observer.on_report(Report(500, 1, {"train/value_loss": 1.0}, []))
    observer.on_report(Report(1000, 2, {"train/value_loss": 1.0}, []))
    console.file.close()
    assert (tmp_path / "out").read_text().count("no gamma") == 1


def test_random_episodes_are_counted():
    made = context("Environment.env_id = 'toys:Counter-v0'", "Environment.num_envs = 2")
    env = made.experiment.environment.make_single()
    played = play(env, 7, gamma=0.5)  # episodes of three steps, each rewarded with 1
    env.close()
    assert (played.lengths, played.returns, played.terminated) == ([3, 3], [3.0, 3.0], 2)
    np.testing.assert_array_equal(played.discounted, [1.75, 1.5, 1, 1.75, 1.5, 1, 1])
    np.testing.assert_array_equal(played.observations[:, 0], [0, 1, 2, 100, 101, 102, 200])


def checked(*bindings):
    findings, _ = examine_environment(context(*bindings), 300)
    return {finding.name: finding for finding in findings}


def test_an_environment_is_examined_before_training():
    healthy = checked("Environment.env_id = 'toys:Noisy-v0'")
    assert set(healthy) <= {"too few updates"}
    offset = checked("Environment.env_options = {'offset': 300.0}")
    assert offset["observation scale"].step == 0
    # Rewards of 300: 3000·(1 − 0.9ᵏ) with k steps to go, for k from 1 to 7 a size of 1,074.
    assert offset["value scale"].binding == "scale = 0.001"


def test_an_environment_that_fails_is_an_error():
    failing = checked(
        "Environment.env_id = 'toys:Faulty-v0'", "Environment.env_options = {'fault': 'raises'}"
    )
    assert failing["environment fails"].severity == "error"
    assert "the toy broke" in failing["environment fails"].seen


def test_context_knows_horizon_and_rates():
    of = context("gamma = 0.98", "learning_rate = 0.004", *decay(1.0))
    assert isinstance(of, Context)
    assert of.horizon == pytest.approx(50)
    assert of.rate(of.learner.actor_optimizer, 0.25) == pytest.approx(0.003)
    assert not of.rate_has_ended(of.learner.actor_optimizer, 0.9)
    assert of.rate_has_ended(of.learner.actor_optimizer, 1.0)


@pytest.mark.parametrize(("options", "limit"), [({}, 500), ({"max_episode_steps": 50}, 50)])
def test_context_knows_the_time_limit(options, limit):
    cartpole = "Environment.env_id = 'CartPole-v1'"
    of = context(cartpole, f"Environment.env_options = {options}")
    assert (of.time_limit, of.usual_limit) == (limit, 500)
    off = context(cartpole, "Environment.env_options = {'max_episode_steps': -1}")
    assert off.time_limit is None
