"""CleanRL's PPO at the work that benchmarks/throughput.py names, in its own environment.

python -m benchmarks.peers.cleanrl WORK THREADS --cleanrl=PATH

PATH is the user's copy of CleanRL; its ppo.py (CartPole) or ppo_continuous_action.py runs as it
is, as from the command line, with a clock on the one scalar per iteration that tells the value
loss. Written for Gymnasium 0.29, it runs here with the release that acx has, so that the
environments cost the same; it is faster with it, too. Where TransformObservation has come to ask
for the observation space, it is told it. Since Gymnasium 1.0 infos lack final_info, so that no
episode is logged, and the step after an episode's end only resets, yet counts and is trained on.

What differs from acx: the value loss is clipped; the continuous script always normalises
observations and rewards, in each environment by itself. Gradient steps per iteration: epochs ×
minibatches (80 for 8 × 256 rows, 10 epochs, 256 a minibatch), networks of 64×64 tanh, as in acx.

Prints one JSON object: environment steps per second after the warm-up, seconds from the process's
start to the end of the first iteration, peak memory.
"""

import argparse
import json
import os
import runpy
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.reporting import Mark, print_marks, revision


def arguments(work: dict[str, Any]) -> list[str]:
    """The work as the scripts' command line."""
    rows = work["num_envs"] * work["rollout_length"]
    return [
        f"--env-id={work['env_id']}",
        f"--num-envs={work['num_envs']}",
        f"--num-steps={work['rollout_length']}",
        f"--total-timesteps={rows * work['iterations']}",
        f"--update-epochs={work['epochs']}",
        f"--num-minibatches={rows // work['minibatch_size']}",
        "--learning-rate=3e-4",
        "--no-cuda",
    ]


def main() -> None:
    """Run the work given as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=json.loads)
    parser.add_argument("threads", type=int)
    parser.add_argument("--cleanrl", type=Path, required=True)
    options = parser.parse_args()
    work = options.work
    if work["algorithm"] != "ppo":
        raise SystemExit("cleanrl: only PPO")
    name = "ppo.py" if work["env_id"] == "CartPole-v1" else "ppo_continuous_action.py"
    copy = options.cleanrl.resolve()
    script = copy / "cleanrl" / name
    if not script.is_file():
        raise SystemExit(f"cleanrl: no {script}")

    import gymnasium
    import torch
    from torch.utils.tensorboard import SummaryWriter

    torch.set_num_threads(options.threads)
    marks: list[Mark] = []
    wrappers: Any = gymnasium.wrappers
    log, transform = SummaryWriter.add_scalar, wrappers.TransformObservation

    def add_scalar(writer: Any, tag: str, value: Any, step: int) -> None:
        if tag == "losses/value_loss":
            marks.append((time.perf_counter(), step))
        log(writer, tag, value, step)

    SummaryWriter.add_scalar = add_scalar
    wrappers.TransformObservation = lambda env, function: transform(
        env, function, env.observation_space
    )
    sys.argv = [str(script), *arguments(work)]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the script writes runs/ where it stands
        runpy.run_path(str(script), run_name="__main__")
    version = (
        f"CleanRL {revision(copy)}, torch {torch.__version__}, gymnasium {gymnasium.__version__}"
    )
    print_marks(marks, max(2, work["iterations"] // 8), 0, version)


main()
