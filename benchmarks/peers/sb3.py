"""Stable-Baselines3 at the work that benchmarks/throughput.py names, in its own environment.

python -m benchmarks.peers.sb3 WORK THREADS [--processes]

With --processes each environment is stepped in one of its own (SubprocVecEnv).

Prints one JSON object: environment steps per second after the warm-up, seconds from the process's
start to the end of the first iteration, peak memory.
"""

import json
import sys
import time

from benchmarks.peers.reporting import Mark, children_mb, print_marks


def main() -> None:
    work, threads = json.loads(sys.argv[1]), int(sys.argv[2])
    import torch
    from stable_baselines3 import A2C, PPO, __version__
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv

    torch.set_num_threads(threads)

    class Clock(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.marks: list[Mark] = []
            self.others_mb = 0.0

        def _on_rollout_start(self) -> None:
            self.marks.append((time.perf_counter(), self.num_timesteps))
            if len(self.marks) == 2:
                self.others_mb = children_mb()

        def _on_step(self) -> bool:
            return True

    how = {}
    if "--processes" in sys.argv:
        how = {"vec_env_cls": SubprocVecEnv, "vec_env_kwargs": {"start_method": "fork"}}
    envs = make_vec_env(work["env_id"], n_envs=work["num_envs"], seed=0, **how)
    common = {
        "n_steps": work["rollout_length"],
        "learning_rate": 3e-4,
        "device": "cpu",
        "seed": 0,
        "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
    }
    if work["algorithm"] == "ppo":
        model = PPO(
            "MlpPolicy",
            envs,
            n_epochs=work["epochs"],
            batch_size=work["minibatch_size"],
            **common,
        )
    else:
        model = A2C("MlpPolicy", envs, **common)
    clock = Clock()
    rows = work["num_envs"] * work["rollout_length"]
    # The clock also ticks before the first rollout, so N iterations and one more give N + 1 marks.
    model.learn(rows * (work["iterations"] + 1), callback=clock)
    version = f"stable-baselines3 {__version__}, torch {torch.__version__}"
    print_marks(clock.marks, max(2, work["iterations"] // 8), 1, version, clock.others_mb)
    envs.close()


main()
