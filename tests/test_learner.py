import resource

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from acx.advantages import GAE, TD
from acx.environments.normalization import ObservationNormalizer, RewardNormalizer
from acx.errors import ConfigError, RunError
from acx.evaluation import Evaluation
from acx.exploration import GSDE
from acx.objectives import ClippedSurrogate, CriticLoss, PolicyGradient, PolicyObjective
from acx.policies import CategoricalHead, GaussianHead, GaussianTanhHead
from acx.schedules import ExponentialDecay, LinearDecay, Progress
from acx.seeding import Stream, episode_seed


def update(experiment, trajectory, progress=None):
    """One iteration of the learner; returns its metrics."""
    experiment.learner.update(trajectory, progress or Progress())
    return experiment.learner.finish()


def collect_and_update(experiment):
    """Build, collect one rollout and learn from it; returns (trajectory, metrics)."""
    experiment.build()
    collecting = tiny.collector(experiment)
    try:
        trajectory = collecting.collect()
        return trajectory, update(experiment, trajectory)
    finally:
        collecting.environments.close()


HEADS = {
    "categorical": (CategoricalHead(), 3),
    "gaussian": (GaussianHead(), "box"),
    "gaussian, unbounded, state-dependent": (GaussianHead("state_dependent"), "free"),
    "tanh": (GaussianTanhHead(), "box"),
    "tanh, wide": (GaussianTanhHead(initial_log_std=1.9), "box"),
    "tanh, state-dependent": (GaussianTanhHead("state_dependent"), "box"),
    "gaussian, generalized": (GaussianHead(GSDE()), "box"),
    "tanh, generalized": (GaussianTanhHead(GSDE()), "box"),
}


class RatioObjective(PolicyObjective):
    """Reports how far the probability ratio of the minibatch is from 1; trains nothing much."""

    def hyperparameters(self, progress):
        return {}

    def loss(self, log_prob, old_log_prob, advantage, weight):
        ratio = tf.exp(log_prob - old_log_prob)
        error = tf.reduce_max(tf.abs(ratio - 1.0))
        return tf.reduce_mean(ratio * advantage), {"ratio_error": error}


@pytest.mark.parametrize(("head", "actions"), HEADS.values(), ids=HEADS)
def test_T23_the_first_minibatch_has_ratio_one_with_the_observation_normalizer_on(head, actions):
    """Of what the collecting policy itself thought of its actions, in each of three iterations."""
    seen = []

    class Acting(type(head)):
        def sample(self, outputs, noise):
            actions = super().sample(outputs, noise)
            seen.append(self.log_prob(tf.constant(outputs), tf.constant(actions)).numpy())
            return actions

    acting = Acting.__new__(Acting)
    acting.__dict__.update(head.__dict__)
    experiment = tiny.experiment(
        env_options={"actions": actions, "offset": 5.0},
        head=acting,
        observation_normalizer=ObservationNormalizer(),
        objective=RatioObjective(),
        iterations=3,
    )
    recorder = tiny.train(experiment)
    assert max(recorder.scalars("train/ratio_error")) < 1e-5
    behavior = np.reshape(seen, (3, -1)).mean(axis=1)
    trained = [-entropy for entropy in recorder.scalars("train/entropy")]
    np.testing.assert_allclose(trained, behavior, atol=1e-5)
    moved = np.ptp(trained)
    assert moved > 1e-4  # the weights did change between the iterations


def test_T23_kl_and_clip_fraction_start_at_zero():
    head = GaussianTanhHead()
    experiment = tiny.experiment(env_options={"actions": "box"}, head=head)
    recorder = tiny.train(experiment)
    assert recorder.scalars("train/approx_kl") == [pytest.approx(0.0, abs=1e-7)]
    assert recorder.scalars("train/clip_fraction") == [0.0]


def reference_step(experiment, trajectory, gamma, lam, rate, clip, value_coef=None):
    """One full-batch SGD step of actor and critic by a plain Keras tape, from the paper's formulas.

    Returns the new weights of each network, as lists, and the gradient norms by head.
    """
    actor, critic = experiment.agent.actor.model, experiment.agent.critic.model
    head = experiment.agent.policy_head
    observations = trajectory.observations.reshape(-1, *trajectory.observations.shape[2:])
    actions = trajectory.actions.reshape(-1, *trajectory.actions.shape[2:])
    rows = trajectory.rewards.shape
    values = critic(observations).numpy().reshape(rows)
    following = np.concatenate([values[1:], critic(trajectory.last_observations).numpy()[None]])
    if len(trajectory.final_observations):
        following[trajectory.truncated > 0] = critic(trajectory.final_observations).numpy()
    advantages, carry = np.zeros(rows), np.zeros(rows[1])
    for t in reversed(range(rows[0])):
        alive = 1 - trajectory.terminated[t]
        delta = trajectory.rewards[t] + gamma * alive * following[t] - values[t]
        carry = delta + gamma * lam * alive * (1 - trajectory.truncated[t]) * carry
        advantages[t] = carry
    returns = (advantages + values).ravel().astype(np.float32)
    advantages = advantages.ravel().astype(np.float32)
    with tf.GradientTape(persistent=True) as tape:
        actor_loss = -tf.reduce_mean(head.log_prob(actor(observations), actions) * advantages)
        critic_loss = tf.reduce_mean((critic(observations) - returns) ** 2) * (value_coef or 1.0)
    shared = value_coef is not None
    variables = {id(v): v for v in (*actor.trainable_variables, *critic.trainable_variables)}
    everything = list(variables.values())
    gradients = {}
    for name, loss, own in (
        ("actor", actor_loss, actor.trainable_variables),
        ("critic", critic_loss, critic.trainable_variables),
    ):
        targets = everything if shared else own
        found = tape.gradient(loss, targets)
        gradients[name] = [
            np.zeros(v.shape) if g is None else g.numpy()
            for g, v in zip(found, targets, strict=True)
        ]
    norms = {
        name: np.sqrt(sum(np.square(g).sum() for g in gradient))
        for name, gradient in gradients.items()
    }
    if shared:
        total = [a + b for a, b in zip(gradients["actor"], gradients["critic"], strict=True)]
        steps = {"agent": (everything, total)}
    else:
        steps = {
            "actor": (actor.trainable_variables, gradients["actor"]),
            "critic": (critic.trainable_variables, gradients["critic"]),
        }
    weights = {}
    for name, (targets, gradient) in steps.items():
        norm = np.sqrt(sum(np.square(g).sum() for g in gradient))
        scale = min(1.0, clip / norm)
        weights[name] = [
            v.numpy() - rate * scale * g for v, g in zip(targets, gradient, strict=True)
        ]
    return weights, norms, returns


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("shared", [False, True])
def test_T44_one_step_equals_a_plain_tape_with_the_clip_for_each_head(shared, clip):
    experiment = tiny.experiment(
        env_options={"length": 3},
        advantage=GAE(0.9, 0.8),
        objective=PolicyGradient(),
        shared_torso=shared,
        actor_optimizer=tiny.optimizer("sgd", 0.1, clip),
        critic_optimizer=None if shared else tiny.optimizer("sgd", 0.1, clip),
        value_coef=0.5,
    )
    experiment.build()
    collecting = tiny.collector(experiment)
    trajectory = collecting.collect()
    collecting.environments.close()
    assert trajectory.truncated.sum() == 4
    expected, norms, returns = reference_step(
        experiment, trajectory, 0.9, 0.8, 0.1, clip or np.inf, 0.5 if shared else None
    )
    metrics = update(experiment, trajectory)
    experiment.learner.sync_models()
    actor, critic = experiment.agent.actor.model, experiment.agent.critic.model
    if shared:
        both = (*actor.trainable_variables, *critic.trainable_variables)
        found = {"agent": list({id(v): v for v in both}.values())}
    else:
        found = {"actor": actor.trainable_variables, "critic": critic.trainable_variables}
    for name, values in expected.items():
        for variable, value in zip(found[name], values, strict=True):
            np.testing.assert_allclose(variable.numpy(), value, rtol=1e-4, atol=1e-6)
    assert metrics["grad_norm_actor"] == pytest.approx(norms["actor"], rel=1e-4)
    assert metrics["grad_norm_critic"] == pytest.approx(norms["critic"], rel=1e-4)
    assert clip is None or min(norms.values()) > clip  # logged before the clip, which was active
    assert metrics["return_mean"] == pytest.approx(returns.mean(), rel=1e-4)


def trained(**changes):
    """Weights after two iterations of four minibatches."""
    experiment = tiny.experiment(iterations=2, minibatch_size=4, **changes)
    tiny.train(experiment)
    return tiny.weights(experiment)


@pytest.fixture(scope="module")
def baseline():
    return trained()


def test_T20_what_trains_the_critic_does_not_reach_the_actor_in_one_iteration():
    found = [
        trained_once(critic_optimizer=tiny.optimizer(learning_rate=rate), critic_loss=loss)
        for rate, loss in ((1e-2, CriticLoss()), (1e-1, CriticLoss(clip_range=0.1)))
    ]
    np.testing.assert_array_equal(found[0]["actor"], found[1]["actor"])
    assert not np.array_equal(found[0]["critic"], found[1]["critic"])


def test_T20_what_trains_the_actor_does_not_reach_the_critic_in_one_iteration():
    found = [
        trained_once(actor_optimizer=tiny.optimizer(learning_rate=rate), objective=objective)
        for rate, objective in ((1e-2, ClippedSurrogate()), (1e-1, PolicyGradient()))
    ]
    np.testing.assert_array_equal(found[0]["critic"], found[1]["critic"])
    assert not np.array_equal(found[0]["actor"], found[1]["actor"])


def trained_once(**changes):
    experiment = tiny.experiment(**changes)
    collect_and_update(experiment)
    return tiny.weights(experiment)


def test_T20_with_a_shared_torso_each_head_is_trained_by_its_own_loss_only():
    """The critic's head must not move where the critic's loss is flat, and the other way round."""
    experiment = tiny.experiment(
        env_id="toys:Counter-v0",
        env_options={"reward": 0.0, "lengths": (99,)},
        shared_torso=True,
        actor_optimizer=tiny.optimizer("sgd", 1.0),
        advantage=GAE(0.0, 0.0),
    )
    experiment.build()
    actor, critic = experiment.agent.actor.model, experiment.agent.critic.model
    before = [v.numpy() for v in (*actor.trainable_variables, *critic.trainable_variables[-2:])]
    critic.trainable_variables[-2].assign(np.zeros((4, 1)))  # V = 0 = the return
    parts = [v.numpy().ravel() for v in (*actor.variables, *critic.variables[-2:])]
    tiny.set_weights(experiment, "agent", np.concatenate(parts))
    collecting = tiny.collector(experiment)
    update(experiment, collecting.collect())
    experiment.learner.sync_models()
    after = [v.numpy() for v in actor.trainable_variables]
    for old, new in zip(before, after, strict=False):
        np.testing.assert_array_equal(old, new)  # advantages are 0
    np.testing.assert_array_equal(critic.trainable_variables[-2].numpy(), np.zeros((4, 1)))


def test_same_seed_same_run_bit_for_bit(baseline):
    again = trained()
    assert baseline.keys() == again.keys()
    for name, value in baseline.items():
        np.testing.assert_array_equal(value, again[name])


def test_different_seeds_give_different_runs(baseline):
    other = trained(seed=1)
    for name, value in baseline.items():
        assert not np.array_equal(value, other[name])


def test_the_critic_beside_the_next_rollout_gives_the_weights_of_one_after_the_other(baseline):
    experiment = tiny.experiment(iterations=2, minibatch_size=4)
    experiment.build()
    collecting = tiny.collector(experiment)
    for _ in range(2):
        trajectory = collecting.collect()
        update(
            experiment, trajectory, Progress(collecting.env_steps, experiment.learner.iterations)
        )
        experiment.actor.load(experiment.learner.actor_parameters)
    for name, value in tiny.weights(experiment).items():
        np.testing.assert_array_equal(value, baseline[name])
    collecting.environments.close()


class Decided(CategoricalHead):
    """Always the most probable action, so that no noise tells the modes apart."""

    def noise(self, rng, rows):
        return np.zeros((*rows, self.choices), np.float32)


def test_T06_T07_equal_weights_from_every_autoreset_mode():
    found = []
    for mode, length in (("Disabled", 5), ("SameStep", 5), ("NextStep", 6)):
        experiment = tiny.experiment(
            f"toys:Counter{mode}-v0",
            env_options={"lengths": (3,), "ends": ("truncated",), "label": False},
            vectorization="vector_entry_point",
            num_envs=1,
            rollout_length=length,
            head=Decided(),
            advantage=GAE(0.9, 0.8),
            objective=PolicyGradient(),
            entropy_coef=0.01,
            normalize_advantages=True,
            observation_normalizer=ObservationNormalizer(),
            actor_optimizer=tiny.optimizer("sgd", 0.1),
            critic_optimizer=tiny.optimizer("sgd", 0.1),
        )
        recorder = tiny.train(experiment)
        assert recorder.scalars("time/total_timesteps") == [5]
        found.append((tiny.weights(experiment), recorder.reports[0].scalars))
    (weights, scalars), *others = found
    for other_weights, other_scalars in others:
        for name, value in weights.items():
            np.testing.assert_allclose(other_weights[name], value, rtol=1e-4, atol=1e-6)
        for tag, value in scalars.items():
            if not tag.startswith("time/"):
                assert other_scalars[tag] == pytest.approx(value, rel=1e-4, abs=1e-6), tag


@pytest.mark.parametrize(
    ("end", "advantages"),
    [
        ("terminated", [2.28232, 1.656, 0.8, 1.8676, 1.08]),
        ("truncated", [2.422288, 1.8504, 1.07, 1.8676, 1.08]),
    ],
)
def test_T06_the_learner_uses_valid_rows_only(end, advantages):
    experiment = tiny.experiment(
        "toys:CounterNextStep-v0",
        env_options={"lengths": (3,), "ends": (end,), "label": False},
        vectorization="vector_entry_point",
        num_envs=1,
        rollout_length=6,
        hidden_sizes=(),
        advantage=GAE(0.9, 0.8),
    )
    experiment.build()
    tiny.set_linear_critic(experiment, 0.1)
    collecting = tiny.collector(experiment)
    metrics = update(experiment, collecting.collect())
    values = 0.1 * np.array([0, 1, 2, 0, 1])
    returns = values + advantages
    assert metrics["advantage_mean"] == pytest.approx(np.mean(advantages), rel=1e-5)
    assert metrics["advantage_std"] == pytest.approx(np.std(advantages), rel=1e-4)
    assert metrics["value_mean"] == pytest.approx(np.mean(values), rel=1e-5)
    assert metrics["return_mean"] == pytest.approx(np.mean(returns), rel=1e-5)
    assert metrics["value_loss"] == pytest.approx(np.mean(np.square(advantages)), rel=1e-5)
    assert metrics["reward_mean"] == pytest.approx(1.0)
    explained = 1 - np.var(advantages) / np.var(returns)
    assert metrics["explained_variance"] == pytest.approx(explained, rel=1e-4)


def test_T15_the_reward_scale_is_applied_once_and_reported_returns_are_raw():
    experiment = tiny.experiment(
        "toys:Counter-v0",
        env_options={"lengths": (200,), "label": False},
        num_envs=1,
        rollout_length=200,
        hidden_sizes=(),
        advantage=TD(gamma=0.0),
        reward_scale=0.1,
    )
    recorder = tiny.train(experiment)
    # With γ = 0 the return is the reward that the advantage module saw.
    assert recorder.scalars("train/return_mean")[0] * 200 == pytest.approx(20.0, rel=1e-4)
    assert recorder.scalars("train/reward_mean")[0] * 200 == pytest.approx(20.0, rel=1e-4)
    assert recorder.scalars("rollout/ep_rew_mean") == [200.0]
    [(_, result, _)] = recorder.evaluations
    assert result.returns.tolist() == [200.0, 200.0]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf")])
def test_T15_a_reward_scale_that_is_not_positive_is_refused(scale):
    with pytest.raises(ConfigError, match=r"Learner\.reward_scale"):
        tiny.experiment(reward_scale=scale)


def test_reported_returns_are_raw_with_the_reward_normalizer():
    experiment = tiny.experiment(
        "toys:Counter-v0",
        env_options={"lengths": (4,), "reward": 50.0},
        reward_normalizer=RewardNormalizer(),
    )
    recorder = tiny.train(experiment)
    assert recorder.scalars("rollout/ep_rew_mean") == [200.0]
    assert recorder.scalars("train/reward_mean")[0] < 5.0


class Unused(keras.layers.Layer):
    """A layer whose weight its output does not depend on."""

    def build(self, input_shape):
        self.spare = self.add_weight(name="spare", shape=(2,))

    def call(self, features):
        return features


class WithUnused(CategoricalHead):
    """A head with a weight that no loss depends on."""

    def layers(self, rng):
        return [*super().layers(rng), Unused()]


class Detached(CategoricalHead):
    """A head whose log-probability leaves the tape."""

    def log_prob(self, outputs, actions):
        return super().log_prob(tf.stop_gradient(outputs), actions)


@pytest.mark.parametrize(
    ("head", "named"),
    [(WithUnused(), "spare of the actor"), (Detached(), "kernel of the actor")],
)
def test_T21_a_weight_without_a_gradient_is_an_error_that_names_it(head, named):
    with pytest.raises(ConfigError, match=f"{named} gets no gradient"):
        collect_and_update(tiny.experiment(head=head))


def test_T22_value_clipping_is_around_the_values_of_the_rollout():
    """V starts at 0, G = 10: once V is above .5 the clipped error is the larger, flat one."""
    found = []
    for loss in (CriticLoss(), CriticLoss(clip_range=0.5)):
        experiment = tiny.experiment(
            "toys:Chasing-v0",  # observes 1; one step an episode
            env_options={"target": 0.0},
            head=GaussianHead(),
            hidden_sizes=(),
            advantage=TD(gamma=0.0),
            critic_loss=loss,
            critic_optimizer=tiny.optimizer("sgd", 0.02, None),
            epochs=100,
        )
        experiment.build()
        tiny.set_linear_critic(experiment, 0.0)
        collecting = tiny.collector(experiment)
        trajectory = collecting.collect()
        trajectory.rewards[:] = 10.0
        update(experiment, trajectory)
        experiment.learner.sync_models()
        found.append(float(experiment.agent.critic.model(np.ones((1, 1)))[0]))
    assert found[0] == pytest.approx(10.0, abs=0.1)
    # One step of 2 · .02 · 2 · 10 leaves the range, then nothing moves.
    assert 0.5 <= found[1] <= 0.5 + 0.8


def test_T41_the_learning_rate_counts_optimizer_steps_iterations_or_environment_steps():
    def rates(unit, steps):
        schedule = ExponentialDecay(1e-3, 0.5, steps, unit)
        experiment = tiny.experiment(
            iterations=2,
            epochs=4,
            minibatch_size=4,
            actor_optimizer=tiny.optimizer(learning_rate=schedule),
            critic_optimizer=tiny.optimizer(learning_rate=2e-3),
        )
        recorder = tiny.train(experiment)
        assert recorder.scalars("train/learning_rate_critic") == pytest.approx([2e-3] * 2)
        return recorder.scalars("train/learning_rate")

    # 16 gradient steps an iteration: the last ones used are number 15 and 31.
    assert rates("optimizer_steps", 10) == pytest.approx([1e-3 * 0.5**1.5, 1e-3 * 0.5**3.1])
    assert rates("iterations", 10) == pytest.approx([1e-3, 9.330330e-4])
    assert rates("env_steps", 16) == pytest.approx([1e-3, 5e-4])


def test_T41_the_logged_learning_rate_is_the_one_that_was_used():
    """SGD without a clip moves by rate · gradient: two rates, proportional moves."""
    moves = []
    for rate in (1e-3, ExponentialDecay(2e-3, 0.5, 1, "optimizer_steps")):
        experiment = tiny.experiment(
            actor_optimizer=tiny.optimizer("sgd", rate, None), objective=PolicyGradient()
        )
        experiment.build()
        before = tiny.weights(experiment)["actor"]
        collecting = tiny.collector(experiment)
        update(experiment, collecting.collect())
        moves.append(tiny.weights(experiment)["actor"] - before)
    np.testing.assert_allclose(2 * moves[0], moves[1], rtol=1e-2, atol=1e-6)


def test_T32_without_an_entropy_coefficient_the_entropy_is_never_asked_for():
    class NoEntropy(GaussianTanhHead):
        def entropy(self, outputs, seed):
            raise NotImplementedError

    options = {"actions": "box"}
    recorder = tiny.train(tiny.experiment(env_options=options, head=NoEntropy()))
    assert len(recorder.reports) == 1
    with pytest.raises(NotImplementedError):
        collect_and_update(
            tiny.experiment(env_options=options, head=NoEntropy(), entropy_coef=0.01)
        )


def test_an_entropy_bonus_alone_raises_the_entropy():
    experiment = tiny.experiment(
        "toys:Counter-v0",  # observes 0 at every step
        env_options={"reward": 0.0, "lengths": (1,), "actions": 4, "label": False},
        advantage=TD(gamma=0.0),
        hidden_sizes=(),
        iterations=10,
        entropy_coef=1.0,
        actor_optimizer=tiny.optimizer(learning_rate=0.2),
    )
    experiment.build()
    tiny.set_linear_critic(experiment, 0.0)
    tiny.set_weights(experiment, "actor", [0, 0, 0, 0, 3, 0, 0, 0])
    recorder = tiny.Recorder()
    experiment.run([recorder])
    bonus = [-loss for loss in recorder.scalars("train/entropy_loss")]
    probabilities = np.exp([3, 0, 0, 0]) / np.exp([3, 0, 0, 0]).sum()
    assert bonus[0] == pytest.approx(-(probabilities * np.log(probabilities)).sum(), rel=1e-5)
    assert bonus[0] + 0.3 < bonus[-1] <= np.log(4) + 1e-5


def test_a_target_kl_stops_the_epochs_early():
    def steps(target_kl):
        experiment = tiny.experiment(
            objective=ClippedSurrogate(target_kl=target_kl),
            actor_optimizer=tiny.optimizer(learning_rate=0.5),
            epochs=20,
        )
        return tiny.train(experiment).scalars("train/n_updates")[0]

    assert steps(None) == 20
    assert 1 <= steps(0.01) < 20


class Counting(PolicyObjective):
    """Counts how often it is traced."""

    def __init__(self):
        self.traces = 0
        self.clip_range = LinearDecay(0.2, 100, "iterations")

    def hyperparameters(self, progress):
        return {"clip_range": float(self.clip_range.value(np.float64(progress.iterations)))}

    def loss(self, log_prob, old_log_prob, advantage, weight, clip_range):
        self.traces += 1
        return -tf.reduce_mean(log_prob * advantage), {"clip_range": clip_range}


def test_T51_no_retracing_and_no_growing_memory_over_a_hundred_updates():
    objective = Counting()
    experiment = tiny.experiment(iterations=100, minibatch_size=8, objective=objective)
    traces, memory = [], []

    class Watch(tiny.Recorder):
        def on_report(self, report):
            super().on_report(report)
            traces.append(objective.traces)
            memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

    experiment.build()
    watch = Watch()
    experiment.run([watch])
    assert len(traces) == 100
    assert traces[0] == traces[-1] <= 2
    assert memory[-1] - memory[9] < 20_000  # KiB
    annealed = watch.scalars("train/clip_range")
    np.testing.assert_allclose(annealed, 0.2 * (1 - np.arange(100) / 100), rtol=1e-5)


def test_T39_one_nan_reward_stops_the_run_with_the_last_good_weights():
    seed = episode_seed(0, Stream.TRAINING_EPISODES, 0, 0)
    options = {"fault": "reward nan", "at": 50, "seed": seed}
    experiment = tiny.experiment(
        "toys:Faulty-v0", env_options=options, num_envs=1, rollout_length=32, iterations=4
    )
    experiment.build()
    recorder = tiny.Recorder()
    with pytest.raises(RunError, match=r"environment 0 returned the reward \[?nan"):
        experiment.run([recorder])
    assert recorder.scalars("time/total_timesteps") == [32]
    good = tiny.experiment(
        "toys:Faulty-v0", env_options=options, num_envs=1, rollout_length=32, iterations=1
    )
    collect_and_update(good)
    for name, value in tiny.weights(good).items():
        assert np.isfinite(value).all()
        np.testing.assert_array_equal(tiny.weights(experiment)[name], value)


@pytest.mark.parametrize("part", ["actor", "critic"])
def test_T39_a_loss_that_overflows_stops_the_run_and_keeps_the_weights(part):
    rate = {"algorithm": "sgd", "learning_rate": 1e38, "clip_norm": None}
    experiment = tiny.experiment(
        env_options={"offset": 1e3},
        actor_optimizer=tiny.optimizer(**rate if part == "actor" else {}),
        critic_optimizer=tiny.optimizer(**rate if part == "critic" else {}),
        objective=PolicyGradient(),
        hidden_sizes=(),
        epochs=5,
    )
    experiment.build()
    before = tiny.weights(experiment)
    collecting = tiny.collector(experiment)
    with pytest.raises(RunError, match=f"the {part}'s .* not finite.*learning rate"):
        update(experiment, collecting.collect())
    after = tiny.weights(experiment)
    np.testing.assert_array_equal(after[part], before[part])
    assert all(np.isfinite(value).all() for value in after.values())


def test_minibatches_must_divide_the_rollout():
    experiment = tiny.experiment(minibatch_size=5)
    with pytest.raises(ConfigError, match=r"minibatch_size = 5 must divide .*8 .* 2 .* 16 rows"):
        experiment.build()


def test_each_row_is_used_once_an_epoch():
    """With a metric linear in a row's identity, the mean over an epoch's minibatches is exact."""

    class Identity(PolicyObjective):
        def hyperparameters(self, progress):
            return {}

        def loss(self, log_prob, old_log_prob, advantage, weight):
            first = tf.reduce_mean(advantage)
            return tf.reduce_mean(log_prob), {
                "first": first,
                "square": tf.reduce_mean(advantage**2),
            }

    experiment = tiny.experiment(
        objective=Identity(), minibatch_size=4, epochs=3, advantage=TD(gamma=0.0)
    )
    recorder = tiny.train(experiment)
    [scalars] = [report.scalars for report in recorder.reports]
    assert scalars["train/first"] == pytest.approx(scalars["train/advantage_mean"], rel=1e-4)
    square = scalars["train/advantage_std"] ** 2 + scalars["train/advantage_mean"] ** 2
    assert scalars["train/square"] == pytest.approx(square, rel=1e-4)


def test_normalized_advantages_have_mean_0_and_deviation_1_over_the_rollout():
    class Moments(PolicyObjective):
        def hyperparameters(self, progress):
            return {}

        def loss(self, log_prob, old_log_prob, advantage, weight):
            mean = tf.reduce_mean(advantage)
            return tf.reduce_mean(log_prob * advantage), {
                "mean": mean,
                "std": tf.math.reduce_std(advantage),
            }

    recorder = tiny.train(tiny.experiment(objective=Moments(), normalize_advantages=True))
    assert recorder.scalars("train/mean") == [pytest.approx(0.0, abs=1e-6)]
    assert recorder.scalars("train/std") == [pytest.approx(1.0, rel=1e-5)]


def test_a_continuous_policy_finds_the_rewarded_action():
    for head in (GaussianHead(), GaussianTanhHead()):
        experiment = tiny.experiment(
            "toys:Chasing-v0",
            env_options={"target": 0.5, "low": -2.0, "high": 1.0},
            head=head,
            num_envs=8,
            iterations=25,
            epochs=4,
            rollout_length=16,
            normalize_advantages=True,
            actor_optimizer=tiny.optimizer(learning_rate=3e-2),
            evaluation=Evaluation(final_episodes=5),
        )
        [(_, result, final)] = tiny.train(experiment).evaluations
        assert final
        assert result.mean > -0.02


def test_the_keras_models_hold_the_trained_weights_after_sync():
    experiment = tiny.experiment()
    trajectory, _ = collect_and_update(experiment)
    observations = trajectory.observations.reshape(-1, 3)
    experiment.actor.load(experiment.learner.actor_parameters)
    stale = experiment.agent.actor.model(observations).numpy()
    experiment.learner.sync_models()
    fresh = experiment.agent.actor.model(observations).numpy()
    np.testing.assert_allclose(fresh, experiment.actor(observations), rtol=1e-5, atol=1e-6)
    assert not np.allclose(stale, fresh)
    assert isinstance(experiment.agent.actor.model, keras.Model)
