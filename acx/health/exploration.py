"""Diagnoses of how the policy explores."""

import math

from acx.health.context import Context
from acx.health.findings import Diagnosis, Finding, History, amount, rounded
from acx.policies import CategoricalHead

TYPICAL_RATE = 3e-4  # Adam's for actor-critics: Andrychowicz et al. 2021, section 3.7


def _most_entropy(context: Context) -> float | None:
    """Of a categorical policy; None for others."""
    head = context.head
    if not isinstance(head, CategoricalHead):
        return None
    choices = getattr(head, "choices", None) or getattr(context.action_space, "n", None)
    return math.log(int(choices)) if choices else None


def collapsed(history: History, context: Context) -> bool:
    """Whether a categorical policy has become deterministic."""
    most = _most_entropy(context)
    if most is None or not history.has(["train/entropy"]):
        return False
    return bool(history["train/entropy"][-1] < 0.05 * most)


class EntropyCollapsed(Diagnosis):
    """Entropy below 5 % of its maximum in the first half of the run, and returns no better.

    A policy that has solved its task is certain as well, so this looks at the return too.
    """

    name = "entropy collapsed"
    why = "A policy that always does the same sees nothing new, and its gradient vanishes."
    needs = ("train/entropy", "rollout/ep_rew_mean")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the entropy of a categorical policy."""
        most = _most_entropy(context)
        if most is None or history.share > 0.5 or history.improved():
            return None
        if not history.lasted(history["train/entropy"] < 0.05 * most, share=0.04):
            return None
        entropy = history.recent("train/entropy")
        gain, rate = context.head.gain, context.rate(context.learner.actor_optimizer)
        if gain > 1:
            binding = context.names.line("CategoricalHead.gain", 0.01)
        elif rate > 1e-3:
            binding = context.rate_line(max(rounded(rate / 10), TYPICAL_RATE))
        else:
            binding = context.names.line("Learner.entropy_coef", 0.01)
        return self.finding(
            history,
            f"The policy's entropy is {amount(entropy)} of at most {amount(most)} after "
            f"{history.share:.0%} of the run, and returns are no better than at the start.",
            binding,
        )


class StaysRandom(Diagnosis):
    """An entropy bonus of 0.05 or more holds the policy near its maximum entropy, or lets σ grow.

    A median over 90 % of log K in 8 % of the run; for Gaussians a σ of 1.5 times its start.
    Bonuses are usually 0 to 0.01 (Andrychowicz et al. 2021, section 3.6); normalized advantages
    have size 1, so a bonus of 1 asks for nothing but noise.
    """

    name = "policy stays random"
    why = "The entropy bonus pays more for randomness than the advantages pay for acting well."
    needs = ("train/entropy",)

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the entropy, or the standard deviation."""
        if context.entropy_coef < 0.05:
            return None
        most = _most_entropy(context)
        if most is not None:
            entropy = history.recent("train/entropy", 0.08)
            if history.share < 0.12 or entropy < 0.9 * most:
                return None
            size = f"entropy is {amount(entropy)} of at most {amount(most)}"
        elif history.has(["train/std"]):
            first = math.exp(context.head.initial_log_std)
            if not history.lasted(history["train/std"] > 1.5 * first, share=0.04):
                return None
            std = history.recent("train/std")
            size = f"standard deviation grew from {amount(first)} to {amount(std)}"
        else:
            return None
        return self.finding(
            history,
            f"The policy's {size} under an entropy bonus of {amount(context.entropy_coef)}.",
            context.names.line("Learner.entropy_coef", 0.01 if most is not None else 0.0),
        )


class ActionsAtBounds(Diagnosis):
    """Exploration noise over twice the action range puts half of all actions at a bound.

    Or, later, 95 % of the policy's means lie at a bound and returns are no better than at the
    start: a saturated tanh passes no gradient. Bang-bang control with a learned policy is fine.
    """

    name = "actions at the bounds"
    why = (
        "The policy chooses between extremes only, and small changes of its outputs change nothing."
    )
    needs = ("train/actions_at_bounds", "train/means_at_bounds", "train/std")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the shares of actions and means at a bound, and the standard deviation."""
        at_bounds, means = history["train/actions_at_bounds"], history["train/means_at_bounds"]
        wide = (at_bounds > 0.5) & (history["train/std"] > 2 * context.half_width)
        head = type(context.head).__name__
        std, share = history.recent("train/std"), history.recent("train/actions_at_bounds")
        if history.lasted(wide, share=0.04):
            seen = (
                f"{share:.0%} of the actions are at a bound: the policy's standard deviation is "
                f"{amount(std)}"
            )
            if context.entropy_coef > 0.01:
                seen += f" under an entropy bonus of {amount(context.entropy_coef)}."
                return self.finding(history, seen, context.names.line("Learner.entropy_coef", 0.0))
            seen += ", where actions reach from "
            seen += (
                "−1 to 1 before scaling."
                if "Tanh" in head
                else f"−{amount(context.half_width)} to {amount(context.half_width)}."
            )
            start = round(math.log(context.half_width), 1) + 0.0
            return self.finding(history, seen, context.names.line(f"{head}.initial_log_std", start))
        if history.share <= 0.5 and not history.improved() and history.lasted(means > 0.95, 0.05):
            rate = context.rate(context.learner.actor_optimizer)
            return self.finding(
                history,
                f"{history.recent('train/means_at_bounds'):.0%} of the policy's means are at a "
                "bound, and returns are no better than at the start.",
                context.rate_line(max(rounded(rate / 10), min(TYPICAL_RATE, rounded(rate / 3)))),
            )
        return None


class TooLittleExploration(Diagnosis):
    """σ is below a twentieth of the action range in the first 30 % of the run, without gain.

    References start with σ from a quarter to all of the range; it falls when the policy is good.
    """

    name = "too little exploration"
    why = (
        "Actions that hardly differ lead to returns that hardly differ, so good ones are never "
        "found."
    )
    needs = ("train/std", "rollout/ep_rew_mean")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the standard deviation beside the action range."""
        if history.share > 0.3 or history.improved():
            return None
        small = history["train/std"] < 0.1 * context.half_width
        if not history.lasted(small, share=0.05):
            return None
        head, std = type(context.head).__name__, history.recent("train/std")
        start = round(math.log(context.half_width), 1) + 0.0
        if context.head.initial_log_std < math.log(0.1 * context.half_width):
            binding = context.names.line(f"{head}.initial_log_std", start)
        else:
            binding = context.names.line("Learner.entropy_coef", 0.01)
        return self.finding(
            history,
            f"The policy's standard deviation is {amount(std)} where actions reach "
            f"±{amount(context.half_width)} after {history.share:.0%} of the run, and returns are "
            "no better than at the start.",
            binding,
        )
