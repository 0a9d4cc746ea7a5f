import gymnasium
import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from acx.errors import ConfigError
from acx.exploration import GSDE
from acx.networks import sequential
from acx.policies import (
    CategoricalHead,
    GaussianHead,
    GaussianTanhHead,
    categorical_entropy,
    categorical_log_prob,
    gaussian_entropy,
    gaussian_log_prob,
    tanh_log_derivative,
    unsquash,
)


@pytest.fixture(scope="module")
def tfp():
    """The oracle; imported late because it takes seconds."""
    import tensorflow_probability

    return tensorflow_probability


def built(head, space):
    head.build(space)
    return head


def unit_tanh(low=-1.0, high=1.0, size=1, **settings):
    """A tanh head on a Box of `size` equal dimensions."""
    return built(GaussianTanhHead(**settings), Box(low, high, (size,), np.float32))


def outputs(mean, log_std, rows=1):
    """Raw outputs [rows, 2A] of a Gaussian head."""
    mean, log_std = np.atleast_1d(mean), np.atleast_1d(log_std)
    return tf.constant(np.tile(np.concatenate([mean, log_std]), (rows, 1)), tf.float32)


# The categorical head


def test_categorical_log_prob_and_entropy_by_hand():
    logits = tf.math.log(tf.constant([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])) + 7.0
    log_prob = categorical_log_prob(logits, tf.constant([1, 2]))
    np.testing.assert_allclose(log_prob, np.log([0.25, 0.8]), rtol=1e-5)
    entropy = categorical_entropy(logits)
    np.testing.assert_allclose(entropy, [1.5 * np.log(2), 0.639032], rtol=1e-5)


def test_categorical_equals_tensorflow_probability(tfp):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 10, (64, 5)).astype(np.float32)
    actions = rng.integers(5, size=64)
    oracle = tfp.distributions.Categorical(logits=logits)
    head = built(CategoricalHead(), Discrete(5))
    np.testing.assert_allclose(
        head.log_prob(logits, actions), oracle.log_prob(actions), rtol=1e-5, atol=1e-5
    )
    seed = tf.constant([0, 0])
    np.testing.assert_allclose(head.entropy(logits, seed), oracle.entropy(), rtol=1e-4, atol=1e-6)


def test_categorical_with_extreme_logits_is_finite():
    logits = tf.constant([[1e4, -1e4, 0.0]])
    np.testing.assert_allclose(categorical_log_prob(logits, tf.constant([1])), [-2e4])
    np.testing.assert_allclose(categorical_entropy(logits), [0.0], atol=1e-6)


def test_categorical_probabilities_sum_to_one():
    logits = tf.constant(np.random.default_rng(1).normal(0, 3, (1, 6)).astype(np.float32))
    log_probs = categorical_log_prob(tf.repeat(logits, 6, axis=0), tf.range(6))
    assert np.exp(log_probs).sum() == pytest.approx(1.0, abs=1e-6)


def test_categorical_samples_have_the_logits_frequencies():
    head = built(CategoricalHead(), Discrete(3))
    probabilities = np.array([0.1, 0.2, 0.7])
    logits = np.log(np.tile(probabilities, (100_000, 1))).astype(np.float32)
    noise = head.noise(np.random.default_rng(0), (100_000,))
    assert noise.dtype == np.float32
    counts = np.bincount(head.sample(logits, noise), minlength=3)
    # Five standard deviations of a binomial frequency.
    np.testing.assert_allclose(counts / 1e5, probabilities, atol=0.0073)
    assert head.mode(logits)[0] == 2


def test_T33_a_discrete_space_keeps_its_own_numbering_at_the_edge_only():
    head = built(CategoricalHead(), Discrete(3, start=5))
    np.testing.assert_array_equal(head.environment_action(np.array([0, 1, 2])), [5, 6, 7])
    logits = tf.math.log([[0.5, 0.25, 0.25]])
    np.testing.assert_allclose(head.log_prob(logits, tf.constant([0])), [np.log(0.5)], rtol=1e-5)
    head = built(CategoricalHead(), Discrete(1, start=2))
    np.testing.assert_array_equal(head.environment_action(np.array([0])), [2])


# The unsquashed Gaussian


def test_T19_log_prob_and_entropy_are_summed_over_action_dimensions():
    zeros = tf.zeros((2, 2))
    log_prob = gaussian_log_prob(zeros, zeros, tf.constant([[0.0, 0.0], [1.0, 2.0]]))
    assert log_prob.shape == (2,)
    np.testing.assert_allclose(log_prob, [-1.837877, -1.837877 - 2.5], rtol=1e-6)
    np.testing.assert_allclose(gaussian_entropy(zeros), [2.837877, 2.837877], rtol=1e-6)


def test_T25_the_raw_sample_is_scored_and_the_clipped_one_is_sent():
    head = built(GaussianHead(), Box(-1.0, 1.0, (1,), np.float32))
    out = outputs(0.0, 0.0)
    raw = head.sample(out.numpy(), np.array([[2.5]], np.float32))
    np.testing.assert_array_equal(raw, [[2.5]])
    np.testing.assert_allclose(head.log_prob(out, raw), [-4.043939], rtol=1e-6)
    np.testing.assert_array_equal(head.environment_action(raw), [[1.0]])


def test_gaussian_equals_tensorflow_probability(tfp):
    rng = np.random.default_rng(0)
    mean, actions = rng.normal(size=(2, 64, 3)).astype(np.float32)
    log_std = rng.uniform(-4, 2, (64, 3)).astype(np.float32)
    oracle = tfp.distributions.MultivariateNormalDiag(mean, np.exp(log_std))
    head = built(GaussianHead(), Box(-1.0, 1.0, (3,), np.float32))
    out = tf.concat([mean, log_std], axis=-1)
    np.testing.assert_allclose(head.log_prob(out, actions), oracle.log_prob(actions), rtol=1e-4)
    entropy = head.entropy(out, tf.constant([0, 0]))
    np.testing.assert_allclose(entropy, oracle.entropy(), rtol=1e-5)


def test_gaussian_density_integrates_to_one():
    grid = np.linspace(-6, 7, 401, dtype=np.float32)
    x, y = np.meshgrid(grid, grid)
    actions = np.stack([x.ravel(), y.ravel()], axis=-1)
    head = built(GaussianHead(), Box(-1.0, 1.0, (2,), np.float32))
    log_prob = head.log_prob(outputs([0.5, -0.2], [0.0, -0.7], rows=len(actions)), actions)
    area = (grid[1] - grid[0]) ** 2
    assert np.exp(log_prob, dtype=np.float64).sum() * area == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("head_class", [GaussianHead, GaussianTanhHead])
def test_gaussian_samples_have_the_outputs_moments(head_class):
    head = built(head_class(), Box(-1.0, 1.0, (2,), np.float32))
    out = outputs([1.0, -2.0], [-1.0, 0.5], rows=200_000).numpy()
    noise = head.noise(np.random.default_rng(0), (200_000,))
    assert noise.dtype == np.float32
    samples = head.sample(out, noise)
    np.testing.assert_allclose(samples.mean(axis=0), [1.0, -2.0], atol=0.02)
    np.testing.assert_allclose(samples.std(axis=0), np.exp([-1.0, 0.5]), rtol=0.01)
    np.testing.assert_array_equal(head.mode(out)[0], [1.0, -2.0])


def test_T30_an_infinite_bound_does_not_clip():
    head = built(GaussianHead(), Box(np.array([0, -np.inf]), np.array([np.inf, 1]), dtype=float))
    sent = head.environment_action(np.array([[-3.0, -99.0], [99.0, 3.0]], np.float32))
    np.testing.assert_array_equal(sent, [[0.0, -99.0], [99.0, 1.0]])
    assert sent.dtype == np.float64


@pytest.mark.parametrize("head_class", [GaussianHead, GaussianTanhHead])
def test_actions_have_the_shape_of_their_space(head_class):
    space = Box(-1.0, 1.0, (2, 3), np.float32)
    head = built(head_class(), space)
    sent = head.environment_action(np.zeros((4, 6), np.float32))
    assert sent.shape == (4, 2, 3)
    assert space.contains(sent[0])


@pytest.mark.parametrize("head_class", [GaussianHead, GaussianTanhHead])
@pytest.mark.parametrize(("low", "high"), [(-20, 2), (-5, 2)])
def test_T31_the_log_std_is_clamped_alike_in_sample_and_log_prob(head_class, low, high):
    head = built(head_class(log_std_range=(low, high)), Box(-1.0, 1.0, (1,), np.float32))
    for raw, used in ((-104.0, low), (-103.0, low), (100.0, high)):
        out = outputs(0.0, raw)
        noise = np.array([[0.5]], np.float32)
        sample = head.sample(out.numpy(), noise)
        np.testing.assert_allclose(sample, 0.5 * np.exp([[used]]), rtol=1e-5)
        assert np.isfinite(head.log_prob(out, sample)).all()
        np.testing.assert_array_equal(
            head.log_prob(out, sample), head.log_prob(outputs(0.0, used), sample)
        )


def test_T31_the_clamped_standard_deviations():
    stds = {2: 7.389056, -5: 0.006738, -20: 2.06e-9}
    for log_std, std in stds.items():
        head = built(GaussianHead(log_std_range=(-20, 2)), Box(-1.0, 1.0, (1,), np.float32))
        sample = head.sample(outputs(0.0, log_std).numpy(), np.ones((1, 1), np.float32))
        np.testing.assert_allclose(sample, [[std]], rtol=1e-3)


@pytest.mark.parametrize("head_class", [GaussianHead, GaussianTanhHead])
def test_T31_the_log_std_gets_its_gradient_inside_the_range(head_class):
    head = built(head_class(log_std_range=(-5, 2)), Box(-1.0, 1.0, (1,), np.float32))
    out = outputs(0.0, -1.0)
    with tf.GradientTape() as tape:
        tape.watch(out)
        log_prob = head.log_prob(out, tf.constant([[0.1]]))
    # d log N / d log σ = z² − 1, with z = .1·e
    gradient = tape.gradient(log_prob, out)[0, 1]
    np.testing.assert_allclose(gradient, (0.1 * np.e) ** 2 - 1, rtol=1e-5)


@pytest.mark.parametrize("wrong", [(2, -5), (1, 1), (1,), (0, 1, 2)])
@pytest.mark.parametrize("head_class", [GaussianHead, GaussianTanhHead])
def test_T31_a_nonsensical_log_std_range_is_refused(head_class, wrong):
    with pytest.raises(ConfigError, match="log_std_range"):
        head_class(log_std_range=wrong)


# The tanh-squashed Gaussian

TANH_LOG_PROBS = {0.0: -0.918939, 0.5: -0.803710, 1.0: -0.551377, 10.0: -32.305233}


@pytest.mark.parametrize(("u", "expected"), TANH_LOG_PROBS.items())
def test_T27_unit_tanh_log_prob(u, expected):
    log_prob = unit_tanh().log_prob(outputs(0.0, 0.0), tf.constant([[u]]))
    np.testing.assert_allclose(log_prob, [expected], rtol=1e-6)


def test_T27_the_correction_at_10_is_exact():
    np.testing.assert_allclose(tanh_log_derivative(tf.constant(10.0)), -18.613706, rtol=1e-6)


def test_T27_the_scale_of_the_bounds_is_in_the_density():
    head = unit_tanh(-2.0, 3.0)
    out, u = outputs(0.0, 0.0), np.array([[1.0]], np.float32)
    np.testing.assert_allclose(head.environment_action(u), [[2.403985]], rtol=1e-6)
    np.testing.assert_allclose(head.log_prob(out, u), [-1.467668], rtol=1e-5)


SATURATED = {
    9.02: 0.5 * (-(9.02**2)) - 0.918939 - 2 * (np.log(2) - 9.02),
    10.0: -32.305233,
    20.0: -162.305233,
    -20.0: -162.305233,
    -8.51089: 0.5 * (-(8.51089**2)) - 0.918939 - 2 * (np.log(2) - 8.51089),
}


@pytest.mark.parametrize(("u", "expected"), SATURATED.items())
def test_T26_saturated_actions_have_finite_log_probs_and_gradients(u, expected):
    head, out = unit_tanh(), outputs(0.0, 0.0)
    with tf.GradientTape() as tape:
        tape.watch(out)
        log_prob = head.log_prob(out, tf.constant([[u]]))
    np.testing.assert_allclose(log_prob, [expected], rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(log_prob, out), [[u, u * u - 1]], rtol=1e-5)


@pytest.mark.parametrize("u", [9.02, 10.0, 20.0, -20.0, -8.51089, 1e4, -1e4])
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-2.0, 3.0), (-0.1, 0.7)])
def test_T26_saturated_actions_are_inside_the_space(u, low, high):
    head = unit_tanh(low, high)
    [action] = head.environment_action(np.array([[u]], np.float32))
    assert head.space.contains(action)


def test_T26_a_bare_action_at_the_bound_is_recovered_with_a_margin():
    u = unsquash(np.array([1.0, -1.0, 0.5]))
    np.testing.assert_allclose(u, [7.254329, -7.254329, 0.549306], rtol=1e-6)
    log_prob = unit_tanh().log_prob(outputs(0.0, 0.0, 2), tf.constant(u[:2, None], tf.float32))
    np.testing.assert_allclose(log_prob, [-14.109217, -14.109217], rtol=1e-5)


def test_T28_log_prob_is_the_same_eager_and_compiled():
    head = unit_tanh(log_std_range=(-20, 10))
    out = outputs(0.0, 10.0)
    u = head.sample(out.numpy(), np.array([[1.3]], np.float32))
    eager = head.log_prob(out, u).numpy()
    other = unit_tanh(log_std_range=(-20, 10)).log_prob(out, u)
    compiled = tf.function(head.log_prob, jit_compile=True)(out, u)
    assert np.isfinite(eager).all()
    np.testing.assert_allclose(other, eager, rtol=1e-4)
    np.testing.assert_allclose(compiled, eager, rtol=1e-4)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-2.0, 3.0), (100.0, 300.0)])
def test_tanh_density_integrates_to_one_over_the_action_bounds(low, high):
    head = unit_tanh(low, high)
    edges = np.linspace(low, high, 40_001)
    actions = (edges[1:] + edges[:-1]) / 2
    u = np.arctanh((actions - low) / (high - low) * 2 - 1)
    out = outputs(0.3, np.log(0.7), rows=len(u))
    density = np.exp(head.log_prob(out, tf.constant(u[:, None], tf.float32)), dtype=np.float64)
    assert density.sum() * (edges[1] - edges[0]) == pytest.approx(1.0, abs=1e-4)


def test_tanh_density_integrates_to_one_in_two_dimensions_of_different_width():
    space = Box(np.array([-2.0, 0.0]), np.array([3.0, 0.5]), dtype=np.float64)
    head = built(GaussianTanhHead(), space)
    centers = (np.arange(300) + 0.5) / 300
    x, y = np.meshgrid(centers, centers)
    u = np.arctanh(2 * np.stack([x.ravel(), y.ravel()], axis=-1) - 1).astype(np.float32)
    log_prob = head.log_prob(outputs([0.3, -0.5], [-0.4, -0.2], rows=len(u)), u)
    cell = (5.0 / 300) * (0.5 / 300)
    assert np.exp(log_prob, dtype=np.float64).sum() * cell == pytest.approx(1.0, abs=1e-3)


def test_tanh_equals_tensorflow_probability(tfp):
    rng = np.random.default_rng(0)
    low, high = np.array([-2.0, -1.0, 5.0]), np.array([3.0, 1.0, 6.0])
    mean, u = rng.normal(size=(2, 64, 3)).astype(np.float32)
    log_std = rng.uniform(-4, 2, (64, 3)).astype(np.float32)
    bijectors, distributions = tfp.bijectors, tfp.distributions
    oracle = distributions.TransformedDistribution(
        distributions.MultivariateNormalDiag(mean.astype(np.float64), np.exp(log_std, dtype=float)),
        bijectors.Chain(
            [bijectors.Shift((low + high) / 2), bijectors.Scale((high - low) / 2), bijectors.Tanh()]
        ),
    )
    actions = (low + high) / 2 + (high - low) / 2 * np.tanh(u.astype(np.float64))
    head = built(GaussianTanhHead(), Box(low, high, dtype=np.float64))
    log_prob = head.log_prob(tf.concat([mean, log_std], axis=-1), u)
    np.testing.assert_allclose(log_prob, oracle.log_prob(actions), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(head.environment_action(u), actions, rtol=1e-5, atol=1e-6)


def squashed_entropy(sigma, mu=0.0, half_width=1.0):
    """H = ½ log 2πe + log σ + E[log(1 − tanh²u)] + log half_width, by quadrature in float64."""
    z = np.linspace(-9, 9, 18_001)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    u = mu + sigma * z
    log_derivative = -2 * np.logaddexp(u, -u) + 2 * np.log(2)  # log sech²u
    expectation = (density * log_derivative).sum() * (z[1] - z[0])
    return 0.5 * np.log(2 * np.pi * np.e) + np.log(sigma) + expectation + np.log(half_width)


# Published as the Monte-Carlo figures .668, −1.105 and −10.96; quadrature is more exact.
SQUASHED_ENTROPIES = {1: 0.670, 3: -1.096, 10: -10.916}


def test_T32_the_quadrature_gives_the_published_entropies():
    for sigma, entropy in SQUASHED_ENTROPIES.items():
        assert squashed_entropy(sigma) == pytest.approx(entropy, abs=0.001)


@pytest.mark.parametrize(("sigma", "entropy"), SQUASHED_ENTROPIES.items())
def test_T32_the_tanh_entropy_estimate_is_that_of_the_squashed_action(sigma, entropy):
    head = unit_tanh(log_std_range=(-5, 3))
    rows = 200_000
    estimate = head.entropy(outputs(0.0, np.log(sigma), rows), tf.constant([1, 2])).numpy()
    noise = estimate.std() / np.sqrt(rows)
    assert estimate.mean() == pytest.approx(entropy, abs=5 * noise + 0.005)


def test_tanh_entropy_estimate_agrees_with_sampled_log_probs():
    """Monte Carlo of −log π by the head's own sampling, in two dimensions with wide bounds."""
    head = built(GaussianTanhHead(), Box(np.array([-2.0, 0]), np.array([3.0, 9]), dtype=float))
    rows = 200_000
    out = outputs([0.4, -0.3], [0.2, -0.5], rows)
    u = head.sample(out.numpy(), head.noise(np.random.default_rng(0), (rows,)))
    sampled = -head.log_prob(out, u).numpy()
    estimate = head.entropy(out, tf.constant([3, 4])).numpy()
    noise = (sampled.std() + estimate.std()) / np.sqrt(rows)
    assert estimate.mean() == pytest.approx(sampled.mean(), abs=4 * noise)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
def test_T32_the_entropy_gradient_falls_where_squashing_dominates(sigma):
    head = unit_tanh()
    out = outputs(0.5, np.log(sigma), 200_000)
    with tf.GradientTape() as tape:
        tape.watch(out)
        entropy = tf.reduce_mean(head.entropy(out, tf.constant([5, 6])))
    by_mean, by_log_std = tf.reduce_sum(tape.gradient(entropy, out), axis=0).numpy()
    step = 1e-4
    expected = squashed_entropy(sigma * np.exp(step), 0.5) - squashed_entropy(
        sigma * np.exp(-step), 0.5
    )
    assert by_log_std == pytest.approx(expected / (2 * step), abs=0.03)
    assert np.sign(by_log_std) == (1 if sigma < 1 else -1)
    assert by_mean < 0  # less entropy further from the middle


def test_the_entropy_estimate_changes_with_the_seed_only():
    head, out = unit_tanh(), outputs(0.0, 0.0, 4)
    one, same, other = (head.entropy(out, tf.constant(seed)) for seed in ([1, 0], [1, 0], [1, 1]))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


UNSUITABLE_BOUNDS = {
    "infinite": (Box(-np.inf, np.inf, (2,)), "dimension 0"),
    "half-infinite": (Box(np.array([0, -1]), np.array([np.inf, 1]), dtype=np.float32), "n 0"),
    "equal": (Box(np.array([-1, 0]), np.array([1, 0]), dtype=np.float32), "dimension 1"),
}


@pytest.mark.parametrize(("space", "named"), UNSUITABLE_BOUNDS.values(), ids=UNSUITABLE_BOUNDS)
def test_T30_bounds_that_tanh_cannot_map_to_are_refused_by_dimension(space, named):
    with pytest.raises(ConfigError, match=f"{named}.*GaussianHead"):
        built(GaussianTanhHead(), space)


def test_T30_equal_bounds_give_a_constant_action_without_squashing():
    head = built(GaussianHead(), Box(np.array([-1, 0]), np.array([1, 0]), dtype=np.float32))
    sent = head.environment_action(np.array([[0.5, 3.0]], np.float32))
    np.testing.assert_array_equal(sent, [[0.5, 0.0]])
    assert np.isfinite(head.log_prob(outputs([0, 0], [0, 0]), tf.constant([[0.5, 3.0]]))).all()


# Heads and spaces

WRONG_SPACES = [
    (CategoricalHead, Box(-1.0, 1.0, (1,)), "GaussianTanhHead"),
    (GaussianHead, Discrete(2), "use CategoricalHead"),
    (GaussianTanhHead, Discrete(2), "use CategoricalHead"),
    (CategoricalHead, MultiDiscrete([[1, 2]]), r"MultiDiscrete\(.*no head"),
    (GaussianHead, MultiDiscrete([2, 3]), r"MultiDiscrete\(.*no head"),
    (CategoricalHead, gymnasium.spaces.Dict({"x": Discrete(2)}), r"Dict\(.*no head"),
]


@pytest.mark.parametrize(("head_class", "space", "advice"), WRONG_SPACES)
def test_T36_a_head_names_the_action_space_that_it_cannot_serve(head_class, space, advice):
    with pytest.raises(ConfigError, match=advice) as caught:
        built(head_class(), space)
    assert head_class.__name__ in str(caught.value)


# The layers

HEADS = {
    "categorical": (CategoricalHead(), Discrete(3), 3),
    "gaussian": (GaussianHead(), Box(-1.0, 1.0, (2,)), 4),
    "gaussian, state-dependent": (GaussianHead("state_dependent"), Box(-1.0, 1.0, (2,)), 4),
    "tanh": (GaussianTanhHead(), Box(-1.0, 1.0, (2,)), 4),
    "tanh, state-dependent": (GaussianTanhHead("state_dependent"), Box(-1.0, 1.0, (2,)), 4),
    "gaussian, generalized": (GaussianHead(GSDE()), Box(-1.0, 1.0, (2,)), 2 + 3 * 2),
    "tanh, generalized": (GaussianTanhHead(GSDE()), Box(-1.0, 1.0, (2,)), 2 + 3 * 2),
}


@pytest.mark.parametrize(("head", "space", "width"), HEADS.values(), ids=HEADS)
def test_heads_return_raw_unbounded_outputs(head, space, width):
    head.build(space)
    model = sequential("actor", (3,), head.layers(np.random.default_rng(0)))
    for variable in model.trainable_variables:
        variable.assign(np.full(variable.shape, 50.0))
    out = model(np.ones((2, 3), np.float32))
    assert isinstance(out, tf.Tensor)
    assert out.shape == (2, width)
    assert float(tf.reduce_max(out)) >= 50.0  # no softmax, tanh or the like on top


@pytest.mark.parametrize("name", [n for n in HEADS if n != "categorical"])
def test_the_initial_log_std_is_what_was_asked_for(name):
    head_class, std = type(HEADS[name][0]), HEADS[name][0].std
    head = built(head_class(std, initial_log_std=-1.5), Box(-1.0, 1.0, (2,)))
    model = sequential("actor", (3,), head.layers(np.random.default_rng(0)))
    observations = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    if isinstance(std, GSDE):  # where features have a mean square of 1
        observations /= np.sqrt(np.square(observations).mean(axis=1, keepdims=True))
    _, log_std = head._split(model(observations))
    np.testing.assert_allclose(log_std, np.full((8, 2), -1.5), atol=0.1)


def test_T43_the_state_independent_log_std_is_a_trainable_weight():
    head = built(GaussianHead(), Box(-1.0, 1.0, (2,), np.float32))
    model = sequential("actor", (1,), head.layers(np.random.default_rng(0)))
    assert len(model.trainable_variables) == 3
    assert [v.path.rsplit("/", 1)[-1] for v in model.trainable_variables][-1] == "log_std"
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(head.log_prob(model(tf.ones((4, 1))), tf.zeros((4, 2))))
    [gradient] = tape.gradient(loss, model.trainable_variables[-1:])
    np.testing.assert_allclose(gradient, [-4.0, -4.0], atol=1e-2)  # z² − 1 with z near 0


def test_T43_the_log_std_survives_saving_and_loading_of_the_keras_model(tmp_path):
    head = built(GaussianHead(), Box(-1.0, 1.0, (2,), np.float32))
    models = [sequential("actor", (1,), head.layers(np.random.default_rng(i))) for i in (0, 1)]
    models[0].trainable_variables[-1].assign([0.25, -0.75])
    models[0].save_weights(tmp_path / "actor.weights.h5")
    models[1].load_weights(tmp_path / "actor.weights.h5")
    np.testing.assert_array_equal(models[1](np.ones((1, 1)))[0, 2:], [0.25, -0.75])


def test_T53_heads_are_plain_keras_layers_without_distributions():
    head = built(GaussianTanhHead(), Box(-1.0, 1.0, (2,), np.float32))
    layers = head.layers(np.random.default_rng(0))
    assert all(isinstance(layer, keras.layers.Layer) for layer in layers)
    assert all("tensorflow_probability" not in type(layer).__module__ for layer in layers)


# Generalized state-dependent exploration


def exploring(head, features=3, seed=0):
    """The head on two action dimensions, and its output layer with weights that all matter."""
    built(head, Box(-2.0, 3.0, (2,), np.float32))
    [layer] = head.layers(np.random.default_rng(0))
    layer.build((None, features))
    rng = np.random.default_rng(seed)
    for variable in layer.trainable_variables:
        variable.assign(rng.normal(0, 0.5, variable.shape))
    return head, layer


@pytest.mark.parametrize("head_class", [GaussianHead, GaussianTanhHead])
def test_gsde_scores_actions_with_the_variance_of_equation_6(head_class, tfp):
    head, layer = exploring(head_class(GSDE()))
    features, u = np.random.default_rng(1).normal(size=(2, 64, 3)).astype(np.float32)
    u = u[:, :2]
    kernel, bias, log_std = (np.asarray(v, np.float64) for v in layer.trainable_variables)
    mean = features @ kernel + bias
    std = np.sqrt(np.square(features) @ np.exp(2 * log_std))
    oracle = tfp.distributions.MultivariateNormalDiag(mean, std)
    expected = oracle.log_prob(u)
    if head_class is GaussianTanhHead:
        expected = expected - np.sum(np.log((1 - np.tanh(u.astype(float)) ** 2) * 2.5), axis=1)
    out = layer(features)
    np.testing.assert_allclose(head.log_prob(out, u), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(head.mode(out.numpy()), mean, rtol=1e-4, atol=1e-5)
    if head_class is GaussianHead:
        entropy = head.entropy(out, tf.constant([0, 0]))
        np.testing.assert_allclose(entropy, oracle.entropy(), rtol=1e-4)


def test_gsde_samples_have_the_moments_they_are_scored_with():
    head, layer = exploring(GaussianHead(GSDE(resample_every=1)))
    out, rows = layer(np.array([[1.0, -0.5, 2.0]], np.float32)).numpy(), 100_000
    noise = head.noise(np.random.default_rng(0), (rows, 1))[:, 0]
    samples = head.sample(np.tile(out, (rows, 1)), noise)
    mean, log_std = (part.numpy()[0] for part in head._split(tf.constant(out)))
    std = np.exp(log_std)
    # Five standard errors.
    assert (abs(samples.mean(axis=0) - mean) < 5 * std / rows**0.5).all()
    assert (abs(samples.std(axis=0) - std) < 5 * std / (2 * rows) ** 0.5).all()
    assert abs(np.corrcoef(samples.T)[0, 1]) < 5 / rows**0.5  # dimensions are independent


def test_gsde_is_a_function_of_the_state_until_it_is_drawn_anew():
    head, layer = exploring(GaussianHead(GSDE(resample_every=3)))
    noise = head.noise(np.random.default_rng(0), (8, 2))
    assert noise.shape == (8, 2, 3, 2)
    assert noise.dtype == np.float32
    features = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
    out = np.repeat(layer(features).numpy()[:1], 2, axis=0)  # both environments in one state
    actions = np.array([head.sample(out, step) for step in noise])
    blocks = [actions[0:3], actions[3:6], actions[6:8]]
    for block in blocks:
        np.testing.assert_array_equal(block, np.broadcast_to(block[0], block.shape))
    different = np.concatenate([block[0] for block in blocks])
    assert len(np.unique(different, axis=0)) == 6  # by block and by environment
    # Another state, another action: linear in the features, as the same ε says.
    kernel, bias, log_std = (np.asarray(v, np.float64) for v in layer.trainable_variables)
    matrix = kernel + np.exp(log_std) * noise[0, 1]
    expected = features[1].astype(float) @ matrix + bias
    found = head.sample(layer(features[[1, 1]]).numpy(), noise[0])[1]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("head_class", [GaussianHead, GaussianTanhHead])
@pytest.mark.parametrize(("low", "high"), [(-5.0, -3.0), (2.0, 3.0)])
def test_gsde_is_clamped_alike_in_sample_and_log_prob(head_class, low, high):
    head, layer = exploring(head_class(GSDE(), log_std_range=(low, high)))
    out = layer(np.ones((1, 3), np.float32))
    noise = head.noise(np.random.default_rng(0), (1, 1))[0]
    mean, log_std = head._split(out)
    assert set(log_std.numpy().ravel()) <= {np.float32(low), np.float32(high)}
    free = exploring(head_class(GSDE(), log_std_range=(-20.0, 20.0)))[0]
    scale = np.exp(log_std - free._split(out)[1])
    expected = mean + scale * (free.sample(out.numpy(), noise) - mean)
    np.testing.assert_allclose(head.sample(out.numpy(), noise), expected, rtol=1e-4, atol=1e-6)


def test_gsde_trains_the_deviation_without_touching_the_features():
    head, layer = exploring(GaussianHead(GSDE()))
    features = tf.Variable([[1.0, -0.5, 2.0]])
    with tf.GradientTape() as tape:
        entropy = tf.reduce_sum(head.entropy(layer(features), tf.constant([0, 0])))
    weights = layer.trainable_variables
    by_features, *by_weights = tape.gradient(entropy, [features, *weights])
    assert by_features is None or not np.any(by_features)
    by_kernel, by_bias, by_log_std = by_weights
    assert not np.any(by_kernel)
    assert not np.any(by_bias)
    # d/d(log σ_fa) of ½ log Σ_f φ_f²σ_fa² is that term's share of the variance.
    terms = np.square(features.numpy().T) * np.exp(2 * np.asarray(weights[2]))
    np.testing.assert_allclose(by_log_std, terms / terms.sum(axis=0), rtol=1e-5)


def test_gsde_of_features_that_are_all_zero_is_finite():
    head, layer = exploring(GaussianHead(GSDE()))
    with tf.GradientTape() as tape:
        out = layer(tf.zeros((1, 3)))
        log_prob = tf.reduce_sum(head.log_prob(out, out[:, :2]))
    assert np.isfinite(log_prob)
    assert all(np.isfinite(g).all() for g in tape.gradient(log_prob, layer.trainable_variables))
    noise = head.noise(np.random.default_rng(0), (1, 1))[0]
    np.testing.assert_array_equal(head.sample(out.numpy(), noise), out[:, :2])
