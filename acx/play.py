"""Replay a trained agent: python -m acx.play --run_dir=runs/pendulum/... --render

Plays whole episodes with the deterministic policy and prints their returns; --render opens a
window, --video=FILE.mp4 records instead (pip install 'acx[video]').
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from absl import flags
from rich.console import Console

from acx.cli import checkpoint_flags, run_command
from acx.errors import ConfigError

FLAGS = flags.FlagValues()
RUN_DIR = flags.DEFINE_string("run_dir", None, "Folder of a finished run.", flag_values=FLAGS)
CHECKPOINT, ALLOW_IMPORTS = checkpoint_flags(FLAGS)
EPISODES = flags.DEFINE_integer(
    "episodes", 1, "Episodes to play.", lower_bound=1, flag_values=FLAGS
)
RENDER = flags.DEFINE_bool("render", False, "Show the episodes in a window.", flag_values=FLAGS)
VIDEO = flags.DEFINE_string(
    "video", None, "Record the episodes to this .mp4 file.", flag_values=FLAGS
)


def episode(experiment: Any, env: Any, seed: int) -> Iterator[float]:
    """Play one episode with the policy's mode; yields each raw reward."""
    from acx.evaluation import deterministic_actions

    agent = experiment.agent
    observation, _ = env.reset(seed=seed)
    done = False
    while not done:
        [action] = deterministic_actions(
            agent.policy_head,
            experiment.actor,
            agent.observation_normalizer,
            np.asarray(observation)[None],
        )
        observation, reward, terminated, truncated, _ = env.step(action)
        done = terminated or truncated
        yield float(reward)


def play() -> None:
    """Play as the flags say."""
    if not RUN_DIR.value:
        raise ConfigError("name a run: --run_dir=runs/pendulum/...")
    if RENDER.value and VIDEO.value:
        raise ConfigError("--render and --video exclude each other")
    writer = _video_writer(VIDEO.value) if VIDEO.value else None
    from acx.runtime import load_tensorflow

    load_tensorflow()
    from acx import runs
    from acx.seeding import Stream, episode_seed

    best = CHECKPOINT.value == "best"
    experiment = runs.restore(RUN_DIR.value, Console(), best, ALLOW_IMPORTS.value)
    mode = "human" if RENDER.value else "rgb_array" if VIDEO.value else None
    env = experiment.environment.make_single(render_mode=mode)
    returns = []
    try:
        frames = writer(env.metadata.get("render_fps", 30)) if writer else None
        for number in range(EPISODES.value):
            seed = episode_seed(experiment.seed, Stream.PLAYED_EPISODES, 0, number)
            rewards = []
            for reward in episode(experiment, env, seed):
                rewards.append(reward)
                if frames is not None:
                    frames.append_data(env.render())
            returns.append(sum(rewards))
            print(f"episode {number + 1}: return {returns[-1]:.1f} in {len(rewards)} steps")
        if frames is not None:
            frames.close()
            print(f"video: {VIDEO.value}")
    finally:
        env.close()
    if len(returns) > 1:
        print(f"mean return {np.mean(returns):.1f} ± {np.std(returns):.1f}")


def _video_writer(path: str) -> Any:
    if not path.endswith(".mp4"):
        raise ConfigError(f"--video={path}: must end with .mp4")
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        raise ConfigError("--video needs a package: pip install 'acx[video]'") from None
    return lambda fps: imageio.get_writer(path, fps=fps, macro_block_size=1)


if __name__ == "__main__":
    run_command("acx.play", __doc__, FLAGS, play)
