"""Diagnoses of how the policy moves and how it explores."""

import math

import numpy as np

from acx.health.context import Context
from acx.health.findings import Diagnosis, Finding, History, amount, rounded
from acx.policies import CategoricalHead

TYPICAL_RATE = 3e-4  # Adam's for actor-critics: Andrychowicz et al. 2021, section 3.7


def _gentler(context: Context, kl: float) -> float:
    """A learning rate for moves of a usual size: the KL grows with its square."""
    rate = context.rate(context.learner.actor_optimizer)
    wanted = rounded(rate * math.sqrt(0.01 / max(kl, 0.01)))
    return max(min(wanted, 1e-3, rounded(rate / 3)), min(TYPICAL_RATE, rounded(rate / 3)))


class MovesTooFar(Diagnosis):
    """KL above 0.2 an update on average, or over half of the ratios outside the clip range.

    PPO's useful updates have KLs near 0.01 to 0.03, where its early stopping is usually set
    (Spinning Up, PPO: target_kl 0.01); the reference experiments stay below 0.05. Ten times that
    is a new policy each rollout. The mean is over 3 % of the run and four reports at least, in
    which no update counts as more than 0.5: a single jump is usual when a task is first solved.
    """

    name = "policy moves too far"
    why = (
        "Updates that large undo what was learned: the data says nothing about a policy so far "
        "from the one that collected it."
    )
    needs = ("train/approx_kl",)

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the approximate KL and the clip fraction."""
        if history.share < 0.03:
            return None
        kls = history.recent_values("train/approx_kl", 0.03, reports=4)
        far = len(kls) >= 4 and np.minimum(kls, 0.5).mean() > 0.2
        kl, outside = float(kls.mean()), None
        if history.has(["train/clip_fraction"]):
            outside = float(history.recent_values("train/clip_fraction", 0.03, reports=4).mean())
            usual = getattr(context.learner.policy_objective, "clip_range", 0.2)
            if not isinstance(usual, float) or usual >= 0.05:
                far |= history.lasted(history["train/clip_fraction"] > 0.55, share=0.03)
        if not far:
            return None
        seen = f"An update moves the policy by a KL divergence of {amount(kl)}; 0.01 is usual"
        if outside is not None:
            seen += f", and {outside:.0%} of the probability ratios leave the clip range"
        rate = context.rate(context.learner.actor_optimizer)
        if rate <= TYPICAL_RATE and context.learner.epochs > 4:
            binding = context.names.line("Learner.epochs", 4)
        else:
            binding = context.rate_line(_gentler(context, kl))
        return self.finding(history, f"{seen} (learning rate {amount(rate)}).", binding)


class BarelyMoves(Diagnosis):
    """For 8 % of the run updates are so small that all of the run's in one direction are but a few.

    The KL grows with the square of the distance: K updates of KL d each, all in one direction, come
    to K²·d. Below 0.1, ten usual updates of 0.01 at most, nothing can be learned. Says nothing
    where an iteration is a single gradient step, whose KL is measured before it, late in a run,
    when schedules are meant to stop it, and where the policy has become deterministic.
    """

    name = "policy barely moves"
    why = "A policy that stays where it was initialized can't get better within the budget."
    needs = ("train/approx_kl", "train/grad_norm_actor")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the approximate KL."""
        if context.steps_an_iteration < 2 or history.share > 0.5 or _collapsed(history, context):
            return None
        if context.rate_has_ended(context.learner.actor_optimizer, history.share):
            return None
        reach = np.maximum(history["train/approx_kl"], 0.0) * context.iterations**2
        if not history.lasted(reach < 0.1, share=0.08):
            return None
        kl, norm = history.recent("train/approx_kl"), history.recent("train/grad_norm_actor")
        seen = f"An update moves the policy by a KL divergence of {amount(kl)}; 0.01 is usual"
        return self.finding(history, *self._cause(seen, norm, context))

    def _cause(self, seen: str, norm: float, context: Context) -> tuple[str, str]:
        """What holds the policy back, and the binding that lets it go."""
        optimizer, objective = context.learner.actor_optimizer, context.learner.policy_objective
        rate = context.rate(optimizer)
        clip = getattr(objective, "clip_range", None)
        if rate < 3e-5:
            return f"{seen} (learning rate {amount(rate)}).", context.rate_line(1e-3)
        if isinstance(clip, float) and clip < 0.02:
            binding = context.names.line(f"{type(objective).__name__}.clip_range", 0.2)
            return f"{seen} (clip range {amount(clip)}).", binding
        target = getattr(objective, "target_kl", None)
        if target is not None and target < 1e-3:
            binding = context.names.line(f"{type(objective).__name__}.target_kl", 0.01)
            return f"{seen} (target KL {amount(target)}).", binding
        if optimizer.clip_norm < 1e-3:
            binding = context.names.line("ClippedOptimizer.clip_norm", 0.5)
            return f"{seen} (gradients clipped to {amount(optimizer.clip_norm)}).", binding
        better = context.rate_line(max(min(rounded(rate * 10), 1e-3), rounded(rate * 3)))
        return f"{seen} (gradient norm {amount(norm)}, learning rate {amount(rate)}).", better


def _most_entropy(context: Context) -> float | None:
    """Of a categorical policy; None for others."""
    head = context.head
    if not isinstance(head, CategoricalHead):
        return None
    choices = getattr(head, "choices", None) or getattr(context.action_space, "n", None)
    return math.log(int(choices)) if choices else None


def _collapsed(history: History, context: Context) -> bool:
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


class IdleUnits(Diagnosis):
    """Over half of a network's hidden units gave one output for all observations, three times.

    Dead ReLUs and saturated tanh units pass no gradient. A few are usual with ReLU.
    """

    name = "idle units"
    why = (
        "Units that answer everything alike carry no information and get no gradient: they stay so."
    )
    needs = ("train/idle_units_actor", "train/idle_units_critic")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the probes."""
        for part in ("actor", "critic"):
            values = history[f"train/idle_units_{part}"]
            probes = values[np.isfinite(values)]
            if len(probes) < 3 or probes[-3:].min() <= 0.5 or history.improved():
                continue
            optimizer = (
                getattr(context.learner, f"{part}_optimizer") or context.learner.actor_optimizer
            )
            rate = context.rate(optimizer)
            rms = (
                history.recent("train/observation_rms")
                if history.has(["train/observation_rms"])
                else 1.0
            )
            if rms > 10 and context.experiment.agent.observation_normalizer is None:
                binding = "Agent.observation_normalizer = @ObservationNormalizer()"
            elif rate > TYPICAL_RATE:
                binding = context.rate_line(max(rounded(rate / 10), TYPICAL_RATE), part == "critic")
            else:
                binding = context.names.line("MLP.activation", "tanh")
            return self.finding(
                history,
                f"{probes[-1]:.0%} of the {part}'s hidden units gave the same output for all of "
                "64 observations.",
                binding,
            )
        return None
