"""Diagnoses of how the policy moves."""

import math

import numpy as np

from acx.health.context import Context
from acx.health.exploration import TYPICAL_RATE, collapsed
from acx.health.findings import Diagnosis, Finding, History, amount, rounded


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
        if context.steps_an_iteration < 2 or history.share > 0.5 or collapsed(history, context):
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
