"""Diagnoses of the critic and the scale of what it learns."""

import math

import numpy as np

from acx.health.context import Context
from acx.health.findings import Diagnosis, Finding, History, Severity, amount, rounded


def _size(history: History, share: float = 0.05) -> float:
    """The root mean square of the critic's targets."""
    mean = history.recent("train/return_mean", share)
    return math.hypot(mean, history.recent("train/return_std", share))


def _sizes(history: History) -> np.ndarray:
    """The same in every report."""
    return np.hypot(history["train/return_mean"], history["train/return_std"])


def _no_reward(history: History) -> bool:
    """Whether all rewards were 0: targets are then what the critic makes of nothing."""
    return history.has(["train/reward_nonzero"]) and not history["train/reward_nonzero"].any()


def _learned(history: History, context: Context) -> tuple[float, float]:
    """Spread and size of what the critic is to output: a value normalizer makes both 1."""
    if context.experiment.agent.value_normalizer is not None:
        return 1.0, 1.0
    return history.recent("train/return_std"), _size(history)


def _rescaled(context: Context, size: float) -> float:
    """The reward scale that brings targets to between 1 and 10: a power of ten."""
    return float(f"{context.reward_scale * 10.0 ** -math.floor(math.log10(size)):.0e}")


class ValueScale(Diagnosis):
    """Value targets of size 150 and more, or below 0.01, for 2 % of the run.

    A fresh critic outputs values near 0 and moves its output by about the learning rate times its
    width a step, so targets of a hundred take a good part of a run to reach, and the squared error
    is above 10,000. Targets around 1 to 10 are usual; the reference experiments reach 63.
    """

    name = "value scale"
    why = (
        "The critic starts near 0 and must first cover that distance; until then advantages are "
        "noise."
    )
    needs = ("train/return_mean", "train/return_std", "train/value_mean")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the targets, and what the critic outputs."""
        sizes = _sizes(history)
        small = (sizes < 0.01) & (sizes > 0)
        if not history.lasted((sizes > 150) | small, share=0.02, reports=3):
            return None
        size, value = _size(history), history.recent("train/value_mean")
        targets = history.recent("train/return_mean")
        agent = context.experiment.agent
        if agent.reward_normalizer is not None or agent.value_normalizer is not None:
            return None
        if _no_reward(history):
            return None
        where = "" if history.whole else f" while the critic outputs {amount(value)}"
        seen = (
            f"Value targets average {amount(targets)} with a spread of "
            f"{amount(history.recent('train/return_std'))}{where}; 1 to 10 is easy to learn."
        )
        binding = context.names.line("Learner.reward_scale", _rescaled(context, size))
        severity: Severity = "error" if size > 10_000 else "warning"
        return self.finding(history, seen, binding, severity=severity)


class CriticLossHigh(Diagnosis):
    """The critic's loss is above 100 and above 1.5 times its targets' variance, for 5 % of the run.

    It is the squared error of values: 100 is an error of 10, which is usual where returns reach
    hundreds, so this looks at the loss beside the targets' own variance too: a loss above the
    variance is worse than guessing their mean.
    """

    name = "critic loss high"
    why = "An error that large in the values is an error that large in the advantages."
    needs = ("train/value_loss", "train/return_std")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the loss and the spread of the targets."""
        if context.experiment.agent.value_normalizer is not None:
            return None  # the loss is then in other units than the targets
        losses, variances = history["train/value_loss"], np.square(history["train/return_std"])
        high = (losses > 100) & (losses > 1.5 * variances)
        if history.share < 0.06 or not history.lasted(high, share=0.05):
            return None
        loss = history.recent("train/value_loss")
        size = _size(history)
        if size <= 1:
            return None
        binding = (
            context.names.line("Learner.reward_scale", _rescaled(context, size))
            if size > 10
            else ""
        )
        return self.finding(
            history,
            f"The critic's mean squared error of {amount(loss)} is above the variance of its "
            f"targets, {amount(float(np.median(variances[-5:])))}: guessing their mean would be "
            "better.",
            binding or context.rate_line(3e-4, critic=True),
        )


class CriticDoesNotLearn(Diagnosis):
    """Explained variance at or below 0.05 for 12 % of the run, after its first 2 %.

    1 is a perfect critic, 0 one that knows only the mean return. Critics of the reference
    experiments are above 0.1 at some time in every such stretch. Targets that hardly differ (by
    less than 1 % of their size, as where each step of a solved task is worth the same) don't count.
    """

    name = "critic does not learn"
    why = "Advantages are then raw returns: their noise is as large as without a critic."
    needs = ("train/explained_variance", "train/return_std", "train/value_loss")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the explained variance."""
        explained, spreads = history["train/explained_variance"], history["train/return_std"]
        low = (explained <= 0.05) & (spreads > 0.01 * _sizes(history))
        if history.share < 0.14 or not history.lasted(low, share=0.12, reports=6):
            return None
        if _no_reward(history):
            return None
        optimizer = context.learner.critic_optimizer or context.learner.actor_optimizer
        if context.rate_has_ended(optimizer, history.share):
            return None
        seen = (
            f"The critic explains {history.recent('train/explained_variance'):.0%} of the variance "
            f"of its targets after {history.share:.0%} of the run"
        )
        return self.finding(history, *self._cause(seen, context, history))

    def _cause(self, seen: str, context: Context, history: History) -> tuple[str, str]:
        """What holds the critic back, and the binding that lets it go."""
        optimizer = context.learner.critic_optimizer or context.learner.actor_optimizer
        rate, clip = context.rate(optimizer), context.learner.critic_loss.clip_range
        spread, size = _learned(history, context)
        if rate < 3e-5:
            binding = context.rate_line(1e-3, critic=True)
            return f"{seen} (its learning rate is {amount(rate)}).", binding
        if isinstance(clip, float) and clip < spread / 4:
            binding = context.names.line("CriticLoss.clip_range", None)
            return (
                f"{seen}: it may move {amount(clip)} an update, and what it learns spreads over "
                f"{amount(spread)}.",
                binding,
            )
        if size > 30 or size < 0.05:
            scale = _rescaled(context, size)
            return (
                f"{seen}: they average {amount(history.recent('train/return_mean'))}.",
                context.names.line("Learner.reward_scale", scale),
            )
        better = 1e-3 if rate > 2e-3 else rounded(rate * 3)
        return f"{seen} (learning rate {amount(rate)}).", context.rate_line(better, critic=True)


class CriticDrownsPolicy(Diagnosis):
    """On a shared torso the critic's gradient is over 30 times the policy's, for 5 % of the run."""

    name = "critic drowns the policy"
    why = (
        "Both heads share one torso and one clip: scaled down together, little of the policy's "
        "gradient is left."
    )
    needs = ("train/grad_norm_actor", "train/grad_norm_critic", "train/clipped_agent")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the gradient norms of both heads."""
        actor, critic = history["train/grad_norm_actor"], history["train/grad_norm_critic"]
        drowns = (critic > 30 * actor) & (history["train/clipped_agent"] > 0.5)
        if not context.experiment.agent.shares_torso or not history.lasted(drowns, share=0.05):
            return None
        norms = [history.recent(tag) for tag in self.needs[:2]]
        _, size = _learned(history, context)
        if size > 10:
            binding = context.names.line("Learner.reward_scale", _rescaled(context, size))
        else:
            value = context.learner.value_coef * norms[0] / norms[1]
            binding = context.names.line("Learner.value_coef", float(f"{value:.0e}"))
        return self.finding(
            history,
            f"The critic's gradient has a norm of {amount(norms[1])}, the policy's of "
            f"{amount(norms[0])}, and both are clipped together.",
            binding,
        )
