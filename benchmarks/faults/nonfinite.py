"""NaN and infinity in observations, rewards, losses, gradients: no weight changes by them."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acx import config
from acx.errors import NonFiniteError, RunError
from acx.evaluation import EvaluationResult
from acx.experiment import Experiment
from acx.learner import Learner
from acx.reports import Report
from acx.seeding import Stream, episode_seed
from acx.states import State, part
from benchmarks.faults.experiments import ROOT
from benchmarks.faults.outcome import Outcome

LENGTH, ENVS, ROWS, EPISODE = 8, 2, 16, 7  # of a rollout, of an episode
ITERATIONS = 5
GIN = f"""
import benchmarks.faults.injection
include '{ROOT}/experiments/bases/ppo.gin'
total_steps = {ITERATIONS * ROWS}
Experiment.rollout_length = {LENGTH}
Experiment.checkpoint_seconds = 0.0
Environment.num_envs = {ENVS}
Environment.env_id = 'Poisoned-v0'
MLP.hidden_sizes = (4,)
Learner.minibatch_size = 8
Learner.epochs = 2
Evaluation.final_episodes = 1
Agent.policy_head = @CategoricalHead()
Learner.policy_objective = @PoisonedSurrogate()
Learner.critic_loss = @PoisonedCriticLoss()
"""


@dataclass(frozen=True)
class Case:
    """One place for a value that is not finite, and what the message must hold."""

    name: str
    bindings: Sequence[str]
    expected: Sequence[str]
    iteration: int  # from 0: the one that is dropped


def _environment_cases() -> list[Case]:
    """Every quantity and value, in both environments, at steps of first and later episodes."""
    cases = []
    for quantity, value in itertools.product(("observation", "reward"), ("nan", "inf", "-inf")):
        for environment, step in itertools.product(range(ENVS), (0, 1, 5, 7, 9, 14, 20)):
            episode, at = divmod(step, EPISODE)
            if quantity == "reward" and at == 0:
                continue  # a reset has no reward
            seed = episode_seed(0, Stream.TRAINING_EPISODES, environment, episode)
            options = {"quantity": quantity, "value": value, "episode_seed": seed, "at": at}
            cases.append(
                Case(
                    f"{quantity} {value} in environment {environment}, step {step}",
                    [f"Environment.env_options = {options!r}"],
                    [f"environment {environment} returned the {quantity}", value.strip("-")],
                    _seen_in(quantity, step),
                )
            )
    return cases


def _seen_in(quantity: str, step: int) -> int:
    """The rollout in which a value of an environment's step (from 1; 0: reset) arrives."""
    return max(step - 1, 0) // LENGTH


def _loss_cases() -> list[Case]:
    cases = []
    for (component, name), iteration in itertools.product(
        (("PoisonedSurrogate", "actor"), ("PoisonedCriticLoss", "critic")), range(ITERATIONS)
    ):
        for place, value in (
            ("loss", "nan"),
            ("loss", "inf"),
            ("loss", "-inf"),
            ("gradient", "nan"),
        ):
            bindings = {
                "place": repr(place),
                "value": repr(value),
                "first": iteration * ROWS,
                "last": iteration * ROWS,
            }
            cases.append(
                Case(
                    f"{name}'s {place} {value} in iteration {iteration}",
                    [f"{component}.{key} = {text}" for key, text in bindings.items()],
                    [f"the {name}'s ", "not finite", "all weights are as before the iteration"],
                    iteration,
                )
            )
    return cases


def cases() -> list[Case]:
    """All places."""
    return _environment_cases() + _loss_cases()


class Run:
    """An observer that keeps what a run reported, saved and said."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.states: list[State] = []
        self.said: list[str] = []
        self.scalars: list[dict[str, float]] = []
        self.error: RunError | None = None

    def on_report(self, report: Report) -> None:
        """Keep the scalars."""
        self.scalars.append(report.scalars)

    def save(self, env_steps: int, state: State) -> None:
        """Keep what would be a checkpoint."""
        self.states.append(state)

    def on_evaluation(self, env_steps: int, result: EvaluationResult, final: bool) -> None:
        """Nothing to keep."""

    def close(self) -> None:
        """Nothing to release."""

    def weights(self) -> State:
        """The weights and optimizer state at the end."""
        return {k: v for k, v in self.experiment.learner.state().items() if k[-1].isdigit()}


class Injector:
    """Runs cases with one compiled program.

    Args:
      gin_file: where the configuration is written.
    """

    def __init__(self, gin_file: Path) -> None:
        gin_file.write_text(GIN, encoding="utf-8")
        self._gin_file = gin_file
        self._previous: Learner | None = None

    def run(self, case: Case, policy: str, steps: int, resume_from: State | None = None) -> Run:
        """Train with the case's fault under `on_nonfinite = policy`, from the start or a state."""
        bindings = [
            *case.bindings,
            f"Experiment.on_nonfinite = '{policy}'",
            f"total_steps = {steps}",
        ]
        found = config.load([str(self._gin_file)], bindings)
        experiment = config.build(Experiment, found)
        experiment.build(self._previous)
        self._previous = experiment.learner
        run = Run(experiment)
        try:
            experiment.run([run], run.save, resume_from, warn=run.said.append)
        except RunError as error:
            run.error = error
        return run


def halt_problems(case: Case, run: Run) -> list[str]:
    """The run ended with the right message and with the weights of the last checkpoint."""
    if not isinstance(run.error, NonFiniteError):
        return [f"ended with {run.error!r}"]
    problems = [
        f"{t!r} is not in {str(run.error)!r}" for t in case.expected if t not in str(run.error)
    ]
    if len(run.states) != case.iteration:
        problems.append(f"{len(run.states)} iterations were saved, not {case.iteration}")
    if run.states:
        saved = part(run.states[-1], "learner")
        problems += [
            f"{k} changed" for k, v in run.weights().items() if not np.array_equal(v, saved[k])
        ]
    return problems + _infinite(run)


def recovery_problems(case: Case, run: Run) -> list[str]:
    """The run went on to its end, dropped something, said so, and stayed finite."""
    if run.error is not None:
        return [f"ended with {run.error!r}"]
    dropped = run.scalars[-1].get("train/dropped_iterations")
    problems = [] if dropped == len(run.said) >= 1 else [f"counted {dropped}, said {run.said}"]
    if not all(t in run.said[0] for t in case.expected):
        problems.append(f"said {run.said[0]!r}")
    for scalars in run.scalars:
        problems += [f"reported {tag} = {v}" for tag, v in scalars.items() if not np.isfinite(v)]
    return problems + _infinite(run)


def _infinite(run: Run) -> list[str]:
    states = [part(state, "learner") for state in run.states] + [run.weights()]
    return [
        f"{name} is not finite"
        for state in states
        for name, array in state.items()
        if array.dtype.kind == "f" and not np.isfinite(array).all()
    ]


def check(policy: str, work: Path, every: int = 1) -> Outcome:
    """Try every place, or one of `every`, under 'halt', 'skip' or 'rollback'."""
    promise = {
        "halt": "message right, weights those before the iteration",
        "skip": "iteration dropped and counted, run finished, all finite",
        "rollback": "went back, counted, run finished, all finite",
    }[policy]
    outcome = Outcome("NaN, infinity", f"on_nonfinite = {policy}", promise)
    started, injector = time.monotonic(), Injector(work / "poisoned.gin")
    for case in cases()[::every]:
        run = injector.run(case, policy, ITERATIONS * ROWS * (1 if policy == "halt" else 2))
        problems = halt_problems if policy == "halt" else recovery_problems
        outcome.count(problems(case, run), case.name)
    outcome.seconds = time.monotonic() - started
    return outcome
