"""Stable-Baselines3's PPO on CartPole until it is solved, with RL Baselines3 Zoo's settings.

python benchmarks/peers/sb3_solving.py SEED THREADS EVERY STARTED

8 environments × 32 steps, minibatches of 256, 20 epochs, γ 0.98, λ 0.8, learning rate and clip
range linear from 1e-3 and 0.2 to 0 over 100,000 steps (hyperparams/ppo.yml). Every EVERY steps 100
deterministic episodes are played while the clock stands; STARTED is `time.time()` at the command.
Prints one JSON object: seconds and environment steps until the mean return was 475.
"""

import json
import sys
import time


def main() -> None:
    """Train until solved."""
    seed, threads, every = (int(argument) for argument in sys.argv[1:4])
    started = float(sys.argv[4])
    import torch
    from stable_baselines3 import PPO, __version__
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    torch.set_num_threads(threads)
    judges = make_vec_env("CartPole-v1", n_envs=8, seed=10_000 + seed)

    class Judge(BaseCallback):
        paused, solved, steps = 0.0, None, 0

        def _on_rollout_start(self) -> None:
            if self.num_timesteps // every == self.steps // every:
                return
            self.steps, begin = self.num_timesteps, time.time()
            mean, _ = evaluate_policy(self.model, judges, n_eval_episodes=100)
            if mean >= 475:
                self.solved = begin - started - self.paused
            self.paused += time.time() - begin

        def _on_step(self) -> bool:
            return self.solved is None

    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=seed),
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        ent_coef=0.0,
        learning_rate=lambda remaining: 1e-3 * remaining,
        clip_range=lambda remaining: 0.2 * remaining,
        seed=seed,
        device="cpu",
    )
    judge = Judge()
    model.learn(100_000, callback=judge)
    print(
        json.dumps(
            {
                "seconds": judge.solved,
                "steps": judge.steps,
                "version": f"stable-baselines3 {__version__}, torch {torch.__version__}",
            }
        )
    )


main()
