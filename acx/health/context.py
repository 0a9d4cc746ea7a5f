"""What diagnoses know of a run besides its scalars: the configuration and the environment."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from acx import config
from acx.experiment import Experiment
from acx.optimizers import ClippedOptimizer
from acx.schedules import Progress, Schedule, value_at


class Names:
    """How the value of a parameter is bound in a configuration.

    Args:
      resolved: the resolved configuration.
    """

    def __init__(self, resolved: str = "") -> None:
        self.references: dict[str, str] = dict(re.findall(r"^(\S+) = ([%@]\S+)$", resolved, re.M))
        self._bound = set(re.findall(r"^(\S+) =", resolved, re.M))

    def line(self, parameter: str, value: Any, scope: str = "") -> str:
        """The binding that sets a parameter, by its macro where it has one.

        Args:
          parameter: such as 'Learner.reward_scale'.
          value: to set; text that starts with @ is a component.
          scope: where the parameter is bound in several scopes, the one that is meant.
        """
        written = value if isinstance(value, str) and value[:1] in "@%" else repr(value)
        scoped = f"{scope}/{parameter}" if scope else parameter
        name = scoped if scoped in self._bound else parameter
        reference = self.references.get(name, "")
        return f"{reference[1:] if reference[:1] == '%' else name} = {written}"

    def scope_of(self, component: str) -> str:
        """The scope in which a reference such as '@critic/OptimizerFactory()' builds, or ''."""
        return component.removeprefix("@").rpartition("/")[0]


@dataclass(frozen=True)
class Context:
    """The run's parts and limits.

    Attributes:
      experiment: what is trained, not necessarily built.
      names: how its parameters are bound.
      action_space: None where it is not known.
      time_limit: steps after which an episode is cut; None is never, or not known.
      usual_limit: the limit that the environment is registered with.
      failure: why the run stopped, if it did.
    """

    experiment: Experiment
    names: Names = field(default_factory=Names)
    action_space: gymnasium.Space[Any] | None = None
    time_limit: int | None = None
    usual_limit: int | None = None
    failure: str = ""

    def failed(self, message: str) -> "Context":
        """The same of a run that stopped for this reason."""
        return replace(self, failure=message)

    @property
    def learner(self) -> Any:
        """The experiment's learner."""
        return self.experiment.learner

    @property
    def head(self) -> Any:
        """The policy head."""
        return self.experiment.agent.policy_head

    @property
    def total_steps(self) -> int:
        """The budget."""
        return self.experiment.total_steps

    @property
    def iterations(self) -> int:
        """Rollouts in the budget."""
        return self.total_steps // self.experiment.rows

    @property
    def minibatch_size(self) -> int:
        """Rows of a gradient step."""
        return self.learner.minibatch_size or self.experiment.rows

    @property
    def steps_an_iteration(self) -> int:
        """Gradient steps of each network an iteration."""
        return max(self.learner.epochs * self.experiment.rows // self.minibatch_size, 1)

    @property
    def gamma(self) -> float | None:
        """The discount, where the advantage has one."""
        return getattr(self.learner.advantage, "gamma", None)

    @property
    def horizon(self) -> float:
        """1/(1 − γ): how many steps ahead rewards count; NaN where there is no discount."""
        if self.gamma is None:
            return np.nan
        return 1.0 / (1.0 - self.gamma) if self.gamma < 1 else np.inf

    @property
    def gamma_name(self) -> str:
        """The discount's parameter."""
        return f"{type(self.learner.advantage).__name__}.gamma"

    @property
    def entropy_coef(self) -> float:
        """The entropy bonus' weight at the start."""
        return float(value_at(self.learner.entropy_coef, Progress()))

    @property
    def reward_scale(self) -> float:
        """The factor on rewards."""
        return self.learner.reward_scale

    def rate(self, optimizer: ClippedOptimizer, share: float = 0.0) -> float:
        """An optimizer's learning rate after a share of the run."""
        iterations = share * self.iterations
        progress = Progress(
            int(share * self.total_steps),
            int(iterations),
            np.array([iterations * self.steps_an_iteration]),
        )
        return float(np.ravel(value_at(optimizer.factory.learning_rate, progress))[0])

    def rate_has_ended(self, optimizer: ClippedOptimizer, share: float) -> bool:
        """Whether the learning rate is below 1 % of its first value by then: nothing moves."""
        return self.rate(optimizer, share) < 0.01 * self.rate(optimizer)

    def rate_line(self, value: float, critic: bool = False) -> str:
        """The binding that sets the learning rate (at the start, where it is scheduled)."""
        optimizer = "Learner.critic_optimizer" if critic else "Learner.actor_optimizer"
        outer = self.names.scope_of(self.names.references.get(optimizer, ""))
        inner = self.names.references.get(
            f"{outer}/ClippedOptimizer.optimizer" if outer else "ClippedOptimizer.optimizer",
            self.names.references.get("ClippedOptimizer.optimizer", ""),
        )
        scope = self.names.scope_of(inner)
        factory = f"{scope}/OptimizerFactory" if scope else "OptimizerFactory"
        reference = self.names.references.get(f"{factory}.learning_rate", "")
        if reference[:1] != "@":
            return self.names.line("OptimizerFactory.learning_rate", value, scope)
        schedule = reference.removeprefix("@").removesuffix("()")
        return self.names.line(f"{schedule}.initial_value", value)

    @cached_property
    def half_width(self) -> float:
        """Half the range of the actions that a Gaussian head draws: 1 for the tanh head."""
        space = self.action_space
        if not isinstance(space, gymnasium.spaces.Box) or "Tanh" in type(self.head).__name__:
            return 1.0
        width = np.asarray(space.high, np.float64) - space.low
        return float(np.min(width) / 2) if np.isfinite(width).all() else 1.0


def context_of(experiment: Experiment, resolved: str = "") -> Context:
    """What is known of an experiment.

    Args:
      experiment: the action space is known where it is built.
      resolved: its resolved configuration.
    """
    environment = experiment.environment
    try:
        usual = gymnasium.spec(environment.env_id).max_episode_steps
    except (gymnasium.error.Error, ImportError):
        usual = None
    limit = environment.env_options.get("max_episode_steps", usual)
    if limit is not None and limit <= 0:  # Gymnasium's way to switch it off
        limit = None
    space = getattr(experiment, "action_space", None)
    return Context(experiment, Names(resolved), space, limit, usual)


def context_of_file(file: Path) -> Context:
    """What is known of the experiment of a run's configuration file; it is not built.

    Raises:
      ConfigError: it can't be read, or its environment can't be made.
    """
    experiment = config.build(Experiment, config.load([str(file)]))
    env = experiment.environment.make_single()
    env.close()
    context = context_of(experiment, file.read_text(encoding="utf-8"))
    return replace(context, action_space=env.action_space)


def schedules(context: Context) -> Mapping[str, Schedule]:
    """The learning rates that are scheduled, by the name under which gin builds them."""
    found = {}
    for optimizer in (context.learner.actor_optimizer, context.learner.critic_optimizer):
        if optimizer is not None and isinstance(optimizer.factory.learning_rate, Schedule):
            rate = optimizer.factory.learning_rate
            name = type(rate).__name__
            scoped = [
                reference.removeprefix("@").removesuffix("()")
                for parameter, reference in context.names.references.items()
                if parameter.endswith("OptimizerFactory.learning_rate") and name in reference
            ]
            found[scoped[0] if scoped else name] = rate
    return found
