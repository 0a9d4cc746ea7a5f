"""Write synthetic runs for the notebooks: nothing here was trained, the curves are made up.

    python -m analysis.notebooks.demo_data runs/demo

The folders are as acx leaves them (config.gin, status.json, event files): two experiments of five
seeds each, and a sweep of 27 points over gamma, reward scale and clip norm with three seeds.
"""

import argparse
import itertools
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter

TOTAL_STEPS = 100_000
STEPS = np.arange(2_000, TOTAL_STEPS + 1, 2_000)
START_TIME = 1_700_000_000.0
SWEEP = {
    "gamma": (0.9, 0.95, 0.99),
    "reward_scale": (0.1, 1.0, 10.0),
    "clip_norm": (0.1, 0.5, 2.0),
}


@dataclass(frozen=True)
class Setting:
    """One configuration; its curve approaches the return `final` at `rate` (1 / steps)."""

    experiment: str
    final: float
    rate: float
    gamma: float = 0.95
    reward_scale: float = 0.1
    clip_norm: float = 0.5


def demo_settings() -> Iterator[tuple[str, Setting, int]]:
    """Yield the demo's runs: folder, setting and seed."""
    for seed in range(5):
        yield f"ppo/seed{seed}", Setting("ppo", -165.0, 6e-5), seed
        yield f"a2c/seed{seed}", Setting("a2c", -340.0, 3e-5), seed
    for values in itertools.product(*SWEEP.values()):
        gamma, scale, clip = values
        quality = {0.9: 0.9, 0.95: 1.0, 0.99: 0.7}[gamma]
        quality *= {0.1: 1.0, 1.0: 0.85, 10.0: 0.3}[scale]
        quality *= {0.1: 0.85, 0.5: 1.0, 2.0: 0.95}[clip]
        setting = Setting("sweep", -1250 + 1090 * quality, 5e-5 * quality, *values)
        for seed in range(3):
            yield f"sweep/gamma={gamma},scale={scale},clip={clip}/seed{seed}", setting, seed


def write_run(folder: Path, setting: Setting, seed: int) -> None:
    """Write one run; seeds with reward scale 10 and clip norm 2 diverge for seed 2."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    diverges = (setting.reward_scale, setting.clip_norm, seed) == (10.0, 2.0, 2)
    (folder / "config.gin").write_text(_config(setting, seed))
    generator = np.random.default_rng([seed, *repr(setting).encode()])
    last = STEPS[-1]
    # TensorBoard's own writer would load TensorFlow, for seconds, to create a folder.
    with open(folder / f"events.out.tfevents.{START_TIME:.0f}.demo", "wb") as file:
        writer = RecordWriter(file)
        version = Event(wall_time=START_TIME, file_version="brain.Event:2")
        writer.write(version.SerializeToString())
        for step, values in _curve(setting, generator):
            if diverges and step > TOTAL_STEPS // 2:
                values = dict.fromkeys(values, float("nan"))
            event = Event(wall_time=START_TIME + step / 2_000, step=int(step))
            for tag, value in values.items():
                event.summary.value.add(tag=tag, simple_value=value)
            writer.write(event.SerializeToString())
            if diverges and step > TOTAL_STEPS // 2:
                last = step
                break
    status = {
        "state": "diverged" if diverges else "finished",
        "experiment": setting.experiment,
        "seed": seed,
        "env_steps": int(last),
        "total_steps": TOTAL_STEPS,
        "message": f"the value loss is not finite at step {last}" if diverges else "",
    }
    (folder / "status.json").write_text(json.dumps(status, indent=1) + "\n")
    if diverges:
        (folder / "health.json").write_text(json.dumps([_finding(int(last))], indent=1) + "\n")


def _config(setting: Setting, seed: int) -> str:
    """Write the bindings of a run as acx saves them: macros first, everything resolved."""
    objective = "A2CObjective" if setting.experiment == "a2c" else "ClippedSurrogate"
    return f"""# Synthetic: written by analysis/notebooks/demo_data.py, not by a training run.
gamma = {setting.gamma}
reward_scale = {setting.reward_scale}
clip_norm = {setting.clip_norm}
learning_rate = 0.001
seed = {seed}
Environment.env_id = 'Pendulum-v1'
Experiment.total_steps = {TOTAL_STEPS}
Experiment.seed = {seed}
GAE.gamma = {setting.gamma}
GAE.gae_lambda = 0.95
Learner.reward_scale = {setting.reward_scale}
Learner.policy_objective = @{objective}()
ClippedOptimizer.clip_norm = {setting.clip_norm}
OptimizerFactory.learning_rate = 0.001
"""


def _curve(
    setting: Setting, generator: np.random.Generator
) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield the scalars of each evaluation: an exponential approach with slow and fast noise."""
    final = setting.final + generator.normal(0, 0.03 * abs(setting.final))
    rate = setting.rate * generator.lognormal(0, 0.25)
    drift = 0.0
    for step in STEPS:
        drift = 0.8 * drift + generator.normal(0, 18)
        left = np.exp(-rate * step)
        evaluation = final + (-1250 - final) * left + drift
        training = evaluation - 40 * left + generator.normal(0, 25)
        yield (
            int(step),
            {
                "eval/mean_reward": evaluation,
                "eval/std_reward": 60 + 120 * left,
                "eval/mean_ep_length": 200.0,
                "rollout/ep_rew_mean": training,
                "rollout/ep_len_mean": 200.0,
                "train/policy_gradient_loss": -0.01 * left + generator.normal(0, 0.002),
                "train/value_loss": 5 * left + 0.4 + abs(generator.normal(0, 0.1)),
                "train/entropy": 1.4 * left + 0.2 * (1 - left),
                "train/approx_kl": 0.006 + 0.006 * left + abs(generator.normal(0, 0.001)),
                "train/clip_fraction": 0.05 + 0.1 * left,
                "train/explained_variance": 0.95 * (1 - left) + generator.normal(0, 0.01),
                "train/learning_rate": 0.001 * (1 - step / TOTAL_STEPS),
                "time/fps": 20_000 + generator.normal(0, 300),
            },
        )


def _finding(step: int) -> dict[str, str | int]:
    return {
        "step": step,
        "severity": "error",
        "name": "loss-not-finite",
        "seen": f"the value loss became NaN at step {step:,}",
        "why": "rewards scaled by 10 give returns in the thousands, which large steps can't follow",
        "try": "reward_scale = 0.1, or clip_norm = 0.5",
    }


def main() -> None:
    """Write all demo runs below the folder that the command line names."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    root = arguments.parse_args().folder
    runs = list(demo_settings())
    for folder, setting, seed in runs:
        write_run(root / folder, setting, seed)
    print(f"wrote {len(runs)} synthetic runs below {root}")


if __name__ == "__main__":
    main()
