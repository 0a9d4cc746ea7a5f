"""Configurations that can't be run: one line, exit code 2, no traceback, no run folder."""

import contextlib
import inspect
import io
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acx import main
from acx.advantages import GAE
from acx.agents import Agent
from acx.critics import CriticHead
from acx.environments.factory import Environment
from acx.environments.normalization import ObservationNormalizer, RewardNormalizer
from acx.evaluation import Evaluation
from acx.experiment import Experiment
from acx.learner import Learner
from acx.networks import MLP
from acx.objectives import ClippedSurrogate, CriticLoss
from acx.optimizers import ClippedOptimizer, OptimizerFactory
from acx.policies import GaussianTanhHead
from acx.schedules import LinearDecay
from benchmarks.faults import experiments
from benchmarks.faults.outcome import Outcome

BASE = "Pendulum-v1, PPO"
COMPONENTS = (
    *(Experiment, Environment, Agent, Learner, Evaluation, MLP, GAE, ClippedSurrogate, CriticLoss),
    *(ClippedOptimizer, OptimizerFactory, LinearDecay, GaussianTanhHead, CriticHead),
    *(ObservationNormalizer, RewardNormalizer),
)


@dataclass(frozen=True)
class Bad:
    """A gin line that makes the base experiment impossible, or a command line that is wrong."""

    line: str = ""
    arguments: tuple[str, ...] = ()
    named: tuple[str, ...] = ()  # what the message must hold


def _generated() -> Iterator[Bad]:
    """Every parameter of every component: its name misspelt, its value of a wrong type."""
    for component in COMPONENTS:
        for name in inspect.signature(component).parameters:
            misspelt = f"{name[:-2]}{name[-1]}{name[-2]}" if name[-1] != name[-2] else name[:-1]
            target = f"{component.__name__}.{misspelt}"
            yield Bad(f"{target} = 1", named=(component.__name__, repr(misspelt), repr(name)))
            value = "'sine'" if name == "env_options" else "{'a': 1}"
            yield Bad(f"{component.__name__}.{name} = {value}", named=(component.__name__, name))
        wrong = component.__name__[:-1]
        yield Bad(f"{wrong}.x = 1", named=(repr(wrong),))


OUT_OF_RANGE = """
GAE.gamma = 1.5|GAE.gamma = -0.1|GAE.gae_lambda = 2.0|GAE.gamma = 1e999|Environment.num_envs = 0
Environment.num_envs = -3|Environment.step_timeout = 0.0|Experiment.total_steps = 10
Experiment.total_steps = 0|Experiment.rollout_length = 0|Experiment.log_every = 0
Experiment.checkpoint_seconds = -1.0|Experiment.seed = -1|Experiment.on_nonfinite = 'ignore'
Learner.epochs = 0|Learner.minibatch_size = 0|Learner.minibatch_size = 7
Learner.minibatch_size = 128
Learner.reward_scale = 0.0|Learner.reward_scale = -2.0|Learner.reward_scale = 1e999
Learner.entropy_coef = -0.1|Learner.value_coef = 0.0|Learner.critic_optimizer = None
MLP.activation = 'sine'|MLP.hidden_sizes = (0,)|MLP.hidden_sizes = (8, -8)|MLP.hidden_sizes = 8
ClippedSurrogate.clip_range = 0.0|ClippedSurrogate.target_kl = -1.0
ClippedOptimizer.clip_norm = 0.0|ClippedOptimizer.clip_norm = -0.5
OptimizerFactory.algorithm = 'adamm'|LinearDecay.unit = 'epochs'|LinearDecay.decay_steps = 0
LinearDecay.initial_value = -1.0|Evaluation.every = 0|Evaluation.episodes = 0
Evaluation.final_episodes = -1|GaussianTanhHead.log_std_range = (2.0, -2.0)
ObservationNormalizer.clip = 0.0|ObservationNormalizer.epsilon = -1.0|RewardNormalizer.clip = 0.0
Environment.vectorization = 'fork'|Environment.vectorization = 'vector_entry_point'
Environment.env_id = 'Pendulm-v1'|Environment.env_id = 'nosuch:Env-v0'|Environment.env_id = ''
Environment.env_options = {'speed': 2}|Environment.wrappers = [@gymnasium.wrappers.Autoreset]
Environment.wrappers = [@gymnasium.wrappers.NormalizeReward]|Agent.policy_head = @CategoricalHead()
Agent.policy_head = None|Agent.critic_head = @MLP()|Learner.advantage = @GAE|Learner.advantage = 3
Learner.advantage = @NoSuch()|GAE.gamma = %nowhere|nowhere = 3|TD.n_steps = 2
actor/MLP.layer_norm = True
GAE.gamma = = 1|GAE.gamma|GAE.gamma = 'open|MLP.hidden_sizes = (8,|import nosuchmodule
include 'nowhere.gin'|Experiment.seed = 1.5|GAE.gamma = __import__('os')|%gamma = 3|3 = gamma
"""

# What doesn't fit is the base's policy head: the message names its line.
OTHER_SPACES = ("Environment.env_id = 'CartPole-v1'", "Environment.env_id = 'FrozenLake-v1'")

COMMAND_LINES = (
    Bad(arguments=()),
    Bad(arguments=("--gin_file=nowhere.gin",), named=("nowhere.gin",)),
    Bad(arguments=("--gin_file=.",), named=("folder",)),
    Bad(arguments=("--gin_fil=x.gin",), named=("gin_fil", "--help")),
    Bad(arguments=("--seed=one", "--gin_file=BASE"), named=("seed", "one")),
    Bad(arguments=("--seed=-1", "--gin_file=BASE"), named=("seed", "-1")),
    Bad(arguments=("BASE",), named=("--help",)),
    Bad(arguments=("--gin_file=BASE", "more"), named=("'more'",)),
    Bad(arguments=("--resume",), named=("--run_dir",)),
    Bad(arguments=("--resume", "--run_dir=nowhere"), named=("nowhere", "config.gin")),
    Bad(arguments=("--resume", "--run_dir=x", "--gin_file=BASE"), named=("--resume",)),
    Bad(arguments=("--gin_file=BASE", "--gin_bindings=gama = 1.0"), named=("'gama'", "'gamma'")),
    Bad(arguments=("--gin_file=BASE", "--gin_bindings=gamma 1.0"), named=("--gin_bindings",)),
    Bad(arguments=("--gin_file=BASE", "--run_dir=/dev/null/x"), named=("/dev/null/x",)),
    Bad(arguments=("--gin_file=/dev/null",), named=("Experiment",)),
)


def cases() -> list[Bad]:
    """All of them."""
    lines = [line for row in OUT_OF_RANGE.strip().splitlines() for line in row.split("|")]
    return [*_generated(), *map(Bad, [*lines, *OTHER_SPACES]), *COMMAND_LINES]


def check(work: Path, every: int = 1) -> Outcome:
    """Run the command on every case, or one of `every`, in this process and folder `work`."""
    outcome = Outcome("configurations", "names, types, values, files", "one line, exit code 2")
    started = time.monotonic()
    base = experiments.write(work / "gin")[BASE]
    with contextlib.chdir(work):
        for number, case in enumerate(cases()[::every]):
            file = work / "gin" / f"bad{number}.gin"
            file.write_text(f"include '{base}'\n{case.line}\n", encoding="utf-8")
            arguments = [a.replace("BASE", str(base)) for a in case.arguments]
            place = base if case.line in OTHER_SPACES else file
            named = (f"{place}:", *case.named) if case.line else case.named
            problems = _problems([f"--gin_file={file}"] if case.line else arguments, named)
            outcome.count(problems, case.line or str(arguments))
    outcome.seconds = time.monotonic() - started
    return outcome


def _problems(arguments: list[str], named: tuple[str, ...]) -> list[str]:
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["acx", *arguments]
    code: object = "no exit"
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main.run()
        except SystemExit as error:
            code = error.code
        except Exception as error:
            return [f"{type(error).__name__} got through: {error}"]
    lines = err.getvalue().strip().splitlines()
    problems = [] if code == 2 else [f"exit code {code}"]
    if len(lines) != 1 or not lines[0].startswith("acx: ") or "Traceback" in out.getvalue():
        problems.append(f"said {lines}")
    problems += [f"{text!r} is not in {lines}" for text in named if text not in err.getvalue()]
    if Path("runs").exists():
        problems.append("left a run folder")
    return problems
