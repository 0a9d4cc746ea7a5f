"""The grid's steps are Pendulum's own."""

import gymnasium
import numpy as np

from benchmarks.pendulum_optimum import _step, optimal_costs, optimal_return, seed_return


def test_a_step_from_a_grid_point_costs_and_leads_where_the_environment_does():
    points, rng = 241, np.random.default_rng(0)
    angles = np.linspace(-np.pi, np.pi, points, endpoint=False)
    speeds = np.linspace(-8.0, 8.0, points)
    grid = np.meshgrid(angles, speeds, indexing="ij")
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    for torque in (-2.0, -0.7, 0.0, 1.3, 2.0):
        cost, to, share = _step(*grid, torque)
        for i, j in rng.integers(points, size=(20, 2)):
            env.state = np.array([angles[i], speeds[j]])
            (x, y, speed), reward, *_ = env.step(np.array([torque], np.float32))
            at = i * points + j
            rows, columns = np.divmod(to[:, at], points)
            np.testing.assert_allclose(-cost[at], reward, rtol=1e-6)
            np.testing.assert_allclose(share[:, at].sum(), 1.0, rtol=1e-6)
            np.testing.assert_allclose(share[:, at] @ speeds[columns], speed, atol=1e-5)
            np.testing.assert_allclose(share[:, at] @ np.cos(angles[rows]), x, atol=1e-3)
            np.testing.assert_allclose(share[:, at] @ np.sin(angles[rows]), y, atol=1e-3)


def test_a_finer_grid_finds_better_returns_and_less_of_a_difference():
    coarse, middle, fine = (optimal_return(optimal_costs(points)) for points in (31, 61, 121))
    assert coarse < middle < fine < -130.0
    assert fine - middle < middle - coarse


def test_the_optimum_of_seeds_is_around_that_of_all_first_states():
    costs = optimal_costs(61)
    seeds = [seed_return(costs, seed) for seed in range(8)]
    assert np.std(seeds) > 3.0  # chance has given each its own first states
    assert abs(np.mean(seeds) - optimal_return(costs)) < 3.0 * np.std(seeds) / np.sqrt(7)
