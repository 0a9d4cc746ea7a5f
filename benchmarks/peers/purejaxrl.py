"""PureJaxRL's PPO at the work that benchmarks/throughput.py names, in its own environment.

python -m benchmarks.peers.purejaxrl WORK THREADS --purejaxrl=PATH

PATH is the user's copy of PureJaxRL; its ppo.py is imported as it is. wrappers.py there also
imports Brax and Navix, for environments not used here: mocks stand in for them.

What differs from acx: the environment is gymnax's CartPole, compiled into the program, so there is
no Python in the loop; an episode of 500 steps ends as a termination; the value loss is clipped.
What is the same: per iteration, epochs × minibatches gradient steps of minibatch_size rows each
(80 for 8 × 256 rows, 10 epochs, 256 a minibatch), networks of 64×64 tanh for policy and value.
ppo_continuous_action.py is bound to Brax and to 256×256 networks: Pendulum has no like there.

One executable holds the whole training, so nothing is seen of single iterations: the first call of
the executable is the warm-up, the second is timed, initialisation included. Start-up is the time
until the executable is compiled, and one iteration's share of its first call. Prints one JSON
object: environment steps per second, start-up in seconds, peak memory.
"""

import argparse
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

from benchmarks.peers.reporting import STARTED, print_figures, revision


def load_ppo(copy: Path) -> Any:
    """PureJaxRL's module ppo."""
    folder = copy / "purejaxrl"
    if not (folder / "ppo.py").is_file():
        raise SystemExit(f"purejaxrl: no purejaxrl/ppo.py in {copy}")
    for name in ("brax", "brax.envs.wrappers.training", "navix"):
        sys.modules[name] = MagicMock()
    sys.path.insert(0, str(folder))
    return importlib.import_module("ppo")


def main() -> None:
    """Run the work given as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=json.loads)
    parser.add_argument("threads", type=int)
    parser.add_argument("--purejaxrl", type=Path, required=True)
    options = parser.parse_args()
    work = options.work
    if work["algorithm"] != "ppo" or work["env_id"] != "CartPole-v1":
        raise SystemExit("purejaxrl: only PPO on CartPole-v1")
    os.environ["PJRT_NPROC"] = str(options.threads)

    import jax

    rows = work["num_envs"] * work["rollout_length"]
    steps = rows * work["iterations"]
    config = {
        "LR": 3e-4,
        "NUM_ENVS": work["num_envs"],
        "NUM_STEPS": work["rollout_length"],
        "TOTAL_TIMESTEPS": steps,
        "UPDATE_EPOCHS": work["epochs"],
        "NUM_MINIBATCHES": rows // work["minibatch_size"],
        "GAMMA": 0.99,
        "GAE_LAMBDA": 0.95,
        "CLIP_EPS": 0.2,
        "ENT_COEF": 0.01,
        "VF_COEF": 0.5,
        "MAX_GRAD_NORM": 0.5,
        "ACTIVATION": "tanh",
        "ENV_NAME": work["env_id"],
        "ANNEAL_LR": False,
        "DEBUG": False,
    }
    train = jax.jit(load_ppo(options.purejaxrl).make_train(config))
    train = train.lower(jax.random.key(0)).compile()
    compiled = time.perf_counter()
    jax.block_until_ready(train(jax.random.key(0)))
    begin = time.perf_counter()
    jax.block_until_ready(train(jax.random.key(1)))
    end = time.perf_counter()
    startup = compiled - STARTED + (begin - compiled) / work["iterations"]
    version = f"PureJaxRL {revision(options.purejaxrl)}, jax {jax.__version__}"
    print_figures(steps / (end - begin), startup, version)


main()
