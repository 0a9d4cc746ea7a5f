"""The best mean return that any policy can have on Pendulum-v1, by dynamic programming.

python -m benchmarks.pendulum_optimum

Finite-horizon value iteration (Sutton & Barto 2018, section 4.4) over 200 steps, on grids of angle,
angular velocity and torque; between grid points costs are interpolated linearly. Finer grids come
closer, so the difference of the last two tells how far the figure can be trusted. The 100 episodes
of a seed start where chance has it, so their optimum is another for each seed: the seeds' own, too.
"""

import gymnasium
import numpy as np

from acx.seeding import Stream, episode_seed

STEPS = 200  # of an episode
MAX_SPEED, MAX_TORQUE, FIRST_SPEED, DT = 8.0, 2.0, 1.0, 0.05  # Pendulum-v1's constants


def optimal_costs(points: int, torques: int = 31) -> np.ndarray:
    """The least cost of an episode from each state of the grid, [angles, velocities].

    Args:
      points: of the grid, along the angle and along the velocity.
      torques: that a step chooses from.
    """
    angles = np.linspace(-np.pi, np.pi, points, endpoint=False)
    speeds = np.linspace(-MAX_SPEED, MAX_SPEED, points)
    angle, speed = np.meshgrid(angles, speeds, indexing="ij")
    plans = [
        _step(angle, speed, torque) for torque in np.linspace(-MAX_TORQUE, MAX_TORQUE, torques)
    ]
    cost = np.zeros(points * points, np.float32)
    for _ in range(STEPS):
        cost = np.min([now + (cost[to] * share).sum(axis=0) for now, to, share in plans], axis=0)
    return cost.reshape(points, points)


def optimal_return(costs: np.ndarray) -> float:
    """The optimal return, averaged over first states."""
    first = np.abs(np.linspace(-MAX_SPEED, MAX_SPEED, len(costs))) <= FIRST_SPEED
    return -float(costs[:, first].mean())


def seed_return(costs: np.ndarray, seed: int) -> float:
    """The optimal return, averaged over the episodes that a seed is evaluated on after training."""
    env, returns = gymnasium.make("Pendulum-v1"), []
    stream = Stream.FINAL_EVALUATION_EPISODES
    for environment, episode in np.ndindex(20, 5):  # as acx.evaluation plays 100 episodes
        first, _ = env.reset(seed=episode_seed(seed, stream, environment, episode))
        cosine, sine, speed = first
        to, share = _around(np.arctan2(sine, cosine), speed, len(costs))
        returns.append(-float((costs.ravel()[to] * share).sum()))
    return float(np.mean(returns))


def _step(
    angle: np.ndarray, speed: np.ndarray, torque: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One step from every grid point: its cost [S], and the four grid points around where it leads,
    with their shares [4, S]."""
    points = len(angle)
    cost = angle**2 + 0.1 * speed**2 + 0.001 * torque**2
    faster = speed + (15.0 * np.sin(angle) + 3.0 * torque) * DT
    faster = np.clip(faster, -MAX_SPEED, MAX_SPEED)
    to, share = _around(angle + faster * DT, faster, points)
    return cost.ravel().astype(np.float32), to.reshape(4, -1), share.reshape(4, -1)


def _around(angle: np.ndarray, speed: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """The four grid points around states [...], and their shares: [4, ...] each."""
    row = ((angle + np.pi) % (2 * np.pi)) / (2 * np.pi) * points
    column = (speed + MAX_SPEED) / (2 * MAX_SPEED) * (points - 1)
    left = np.minimum(np.floor(column).astype(int), points - 2)
    up = np.floor(row).astype(int) % points
    down, along, across = (up + 1) % points, row - np.floor(row), column - left
    to = [
        up * points + left,
        up * points + left + 1,
        down * points + left,
        down * points + left + 1,
    ]
    share = [
        (1 - along) * (1 - across),
        (1 - along) * across,
        along * (1 - across),
        along * across,
    ]
    return np.array(to), np.array(share, np.float32)


if __name__ == "__main__":
    for size in (61, 121, 241):
        found = optimal_costs(size)
        print(f"{size} × {size} states: {optimal_return(found):.1f}", flush=True)
    own = [seed_return(found, seed) for seed in range(10)]
    print("seeds 0 to 9:", ", ".join(f"{value:.1f}" for value in own))
