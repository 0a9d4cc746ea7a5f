"""Compiled programs that outlive an experiment: the next one of the same structure takes them over.

Compiling costs more than a short training. What hyperparameter searches usually change (discount,
reward scale, clip norm, learning rate, seed) is an input of the compiled programs or never reaches
them, so experiments that differ in nothing else can share the programs. Everything else is built
anew for each experiment, which makes the result the same, bit for bit, as without sharing.
"""

from acx import config
from acx.experiment import Experiment

# Parameters that no compiled program contains: they are its inputs, or used outside it. A parameter
# that is missing here only costs a compilation.
INPUTS = frozenset(
    {
        "Experiment.total_steps",
        "Experiment.log_every",
        "Experiment.checkpoint_seconds",
        "Experiment.on_nonfinite",
        "Experiment.seed",
        "Evaluation.every",
        "Evaluation.episodes",
        "Evaluation.final_episodes",
        "GAE.gamma",
        "GAE.gae_lambda",
        "TD.gamma",
        "Learner.reward_scale",
        "Learner.value_coef",
        "ClippedSurrogate.clip_range",
        "ClippedSurrogate.target_kl",
        "QuadraticSurrogate.clip_range",
        "QuadraticSurrogate.target_kl",
        "ClippedOptimizer.clip_norm",
        "OptimizerFactory.learning_rate",
        "ExponentialDecay.initial_value",
        "ExponentialDecay.decay_rate",
        "ExponentialDecay.decay_steps",
        "ExponentialDecay.unit",
        "ExponentialDecay.staircase",
        "LinearDecay.initial_value",
        "LinearDecay.final_value",
        "LinearDecay.decay_steps",
        "LinearDecay.unit",
    }
)


def structure(resolved: str) -> dict[str, str]:
    """What the compiled programs of a resolved configuration depend on, by parameter."""
    values = config.values(resolved)
    kept = {
        name: repr(value)
        for name, value in values.items()
        if "." in name and name.rpartition("/")[2].removeprefix("acx.") not in INPUTS
    }
    # An entropy bonus is compiled in or left out; its weight is an input.
    if isinstance(values.get("Learner.entropy_coef"), int | float):
        kept["Learner.entropy_coef"] = str(values["Learner.entropy_coef"] > 0)
    return kept


class ProgramCache:
    """Keeps the programs of the last experiment that it built."""

    def __init__(self) -> None:
        self._structure: dict[str, str] | None = None
        self._last: Experiment | None = None

    def build(self, experiment: Experiment, resolved: str) -> None:
        """Build an experiment, with the kept programs where they fit.

        Raises:
          ConfigError: the parts don't fit together. RunError: the environment misbehaves.
        """
        found = structure(resolved)
        previous, self._last = self._last if found == self._structure else None, None
        experiment.build(None if previous is None else previous.learner)
        self._structure, self._last = found, experiment
