"""Diagnoses of the discount, the schedules, the number of updates and the clip."""

import math

import numpy as np

from acx.health.context import Context, schedules
from acx.health.findings import Diagnosis, Finding, History, amount, rounded
from acx.schedules import ExponentialDecay, LinearDecay, Schedule


def _discount(horizon: float) -> float:
    """γ with 1/(1 − γ) near `horizon`, rounded as people write it: 0.95, 0.98, 0.99, 0.995, …"""
    return 1.0 - rounded(1.0 / max(horizon, 2.0))


class DiscountTooHigh(Diagnosis):
    """1/(1 − γ) is over 20 episode lengths, and episodes only ever end by the time limit.

    Values then add up rewards that no rollout has, whatever the policy does: |V| grows towards
    |r|/(1 − γ) for the whole run. Where episodes end in a terminal state the sum ends too, so any
    γ up to 1 is fine. The advice is a tenth of an episode: without a terminal state the outcome of
    an action shows in a part of an episode (RL Baselines3 Zoo tunes Pendulum to γ = 0.9).
    """

    name = "discount too high"
    why = (
        "The critic must learn sums over far more steps than any episode has, whose spread drowns "
        "what one action changes."
    )
    needs = ("rollout/ep_len_mean", "train/terminated_share", "train/truncated_share")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From episode lengths and how episodes end."""
        lengths = history["rollout/ep_len_mean"]
        endless = np.nan_to_num(history["train/terminated_share"]).max() == 0
        if not endless or not history.lasted(lengths * 20 < context.horizon, 0.03):
            return None
        length = history.recent("rollout/ep_len_mean")
        gamma = _discount(length / 10)
        horizon = (
            "without end" if math.isinf(context.horizon) else f"{amount(context.horizon)} steps"
        )
        return self.finding(
            history,
            f"The discount {context.gamma:g} looks ahead {horizon}; episodes last "
            f"{amount(length)} and have no terminal state.",
            context.names.line(context.gamma_name, gamma),
            severity="warning",
        )


class DiscountTooLow(Diagnosis):
    """1/(1 − γ) is below a thirtieth of an episode, or below 5 steps of one of 10 and more.

    What lies k horizons ahead counts e⁻ᵏ: a goal 30 horizons away weighs 1e-13, less than float32
    resolves. The advice is one episode, and 50 steps at least: early episodes are often short.
    """

    name = "discount too low"
    why = (
        "Rewards further ahead than the horizon hardly count, so the policy is trained to be "
        "shortsighted."
    )
    needs = ("rollout/ep_len_mean",)

    def examine(self, history: History, context: Context) -> Finding | None:
        """From episode lengths."""
        lengths = history["rollout/ep_len_mean"]
        short = (lengths > 30 * context.horizon) | ((context.horizon < 5) & (lengths >= 10))
        if not history.lasted(short, 0.03):
            return None
        length = history.recent("rollout/ep_len_mean")
        return self.finding(
            history,
            f"The discount {context.gamma:g} looks ahead {amount(context.horizon)} steps; "
            f"episodes last {amount(length)}.",
            context.names.line(context.gamma_name, _discount(max(length, 50.0))),
        )


class LearningRateEnds(Diagnosis):
    """The learning rate is below a tenth of its first value for half of the run or more.

    Schedules usually fall to zero at the run's end (a line is below a tenth in the last tenth). One
    that is there much earlier counts another unit than was meant, or was made for a shorter run.
    """

    name = "learning rate ends early"
    why = "Little is learned after that, however long the run goes on."

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the schedule alone."""
        optimizer = context.learner.actor_optimizer
        rate = optimizer.factory.learning_rate
        if not isinstance(rate, Schedule):
            return None
        shares = np.linspace(0.0, 1.0, 101)
        rates = np.array([context.rate(optimizer, share) for share in shares])
        low = np.flatnonzero(rates < 0.1 * rates[0])
        if not len(low) or shares[low[0]] > 0.5:
            return None
        [(name, _), *_] = schedules(context).items()
        units = _units(rate, context)
        seen = (
            f"The learning rate falls from {amount(rates[0])} to less than a tenth of that in "
            f"the first {shares[low[0]]:.0%} of the run: it counts {_words(rate)}, and the run has "
            f"{units:,} of them."
        )
        return self.finding(history, seen, _stretched(rate, name, units, context))


def _units(rate: Schedule, context: Context) -> int:
    """How many units the run has."""
    return {
        "env_steps": context.total_steps,
        "iterations": context.iterations,
        "optimizer_steps": context.iterations * context.steps_an_iteration,
    }[rate.unit]


def _words(rate: Schedule) -> str:
    return {"env_steps": "environment steps"}.get(rate.unit, rate.unit.replace("_", " "))


def _stretched(rate: Schedule, name: str, units: int, context: Context) -> str:
    """The binding that makes a schedule last for the run."""
    if isinstance(rate, LinearDecay):
        return f"{name}.decay_steps = {units}"
    if isinstance(rate, ExponentialDecay) and rate.decay_rate < 1:  # to a tenth by the end
        steps = max(int(rounded(units * math.log(rate.decay_rate) / math.log(0.1))), 1)
        return f"{name}.decay_steps = {steps}"
    return "OptimizerFactory.learning_rate = 0.0003"


class TooFewUpdates(Diagnosis):
    """The budget holds fewer than 20 rollouts, or fewer than 300 gradient steps.

    Policy gradients are only valid near the policy that collected the rollout, so a run makes as
    many moves as it has rollouts. The reference experiments have 48 to 4,700.
    """

    name = "too few updates"
    why = "A policy can only go a little way in each rollout: with so few it can't get far."

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the configuration alone."""
        rollouts, steps = context.iterations, context.iterations * context.steps_an_iteration
        number = context.experiment.environment.num_envs
        if rollouts >= 20 and steps >= 300:
            return None
        seen = (
            f"{context.total_steps:,} steps in rollouts of {context.experiment.rollout_length} × "
            f"{number} make {rollouts:,} {'update' if rollouts == 1 else 'updates'} with {steps:,} "
            "gradient steps of each network."
        )
        if rollouts < 20:
            binding = self._shorter(context)
        else:
            epochs = min(max(math.ceil(1000 / steps), 2) * context.learner.epochs, 10)
            binding = context.names.line("Learner.epochs", epochs)
        if context.total_steps < 20_000:  # a trial run: as short as it is meant to be
            return self.finding(history, seen, binding, severity="info")
        return self.finding(history, seen, binding)

    def _shorter(self, context: Context) -> str:
        """Rollouts of which the budget holds about 100, that minibatches divide."""
        number = context.experiment.environment.num_envs
        size = context.learner.minibatch_size
        step = 1 if size is None else size // math.gcd(size, number)
        wanted = max(context.total_steps // (100 * number), 1)
        length = max(wanted // step, 1) * step
        if length * number * 20 > context.total_steps:
            return context.names.line("Learner.minibatch_size", max(number * wanted // 4, 1))
        return context.names.line("Experiment.rollout_length", length)


class TinyMinibatches(Diagnosis):
    """Gradient steps of fewer than 8 rows, many times a rollout."""

    name = "tiny minibatches"
    why = (
        "The gradient of a handful of rows is mostly noise, and every step costs as much as one "
        "of 64 rows."
    )

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the configuration alone."""
        rows, size = context.experiment.rows, context.minibatch_size
        if size >= 8 or rows <= size:
            return None
        better = next(k for k in range(min(64, rows), 0, -1) if rows % k == 0)
        return self.finding(
            history,
            f"Each gradient step sees {size} of a rollout's {rows} rows.",
            context.names.line("Learner.minibatch_size", better),
        )


class AlwaysClipped(Diagnosis):
    """Nearly every gradient step is clipped to less than a thousandth, over 5 % of the run.

    A clip that acts on most steps is usual. One this far below the gradients leaves Adam with
    steps below its epsilon, and other optimizers with none.
    """

    name = "gradients always clipped"
    why = "What is left of the gradient is too small for the optimizer to move the weights."
    needs = ("train/approx_kl",)

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the norms before the clip and the share of clipped steps."""
        for head, part in (("actor", "actor"), ("critic", "critic"), ("actor", "agent")):
            tags = (f"train/clipped_{part}", f"train/grad_norm_{head}")
            optimizer = getattr(context.learner, f"{head}_optimizer")
            if optimizer is None or not history.has(tags):
                continue
            norms = history[tags[1]]
            if optimizer.clip_norm > 1e-3 or not history.lasted(
                (history[tags[0]] > 0.95) & (norms > 10 * optimizer.clip_norm)
            ):
                continue
            scope = context.names.scope_of(
                context.names.references.get(f"Learner.{head}_optimizer", "")
            )
            return self.finding(
                history,
                f"The {part}'s gradients have a norm of {amount(history.recent(tags[1]))} and are "
                f"clipped to {amount(optimizer.clip_norm)} in nearly every step.",
                context.names.line("ClippedOptimizer.clip_norm", 0.5, scope),
            )
        return None
