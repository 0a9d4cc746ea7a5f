"""Diagnoses of what the environment returns."""

import math

import numpy as np

from acx.environments.parallel import available_cores
from acx.health.context import Context
from acx.health.findings import Diagnosis, Finding, History, Severity, amount


class NonFinite(Diagnosis):
    """A run that ended, or dropped iterations, because something was NaN or infinite."""

    name = "non-finite value"
    why = "One NaN or infinity in a gradient makes all weights NaN, so acx stops before that."

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the failure's message, or the count of dropped iterations."""
        from_environment = " returned the " in context.failure
        if "not finite" in context.failure:
            seen = context.failure.partition(": all weights")[0].partition(": it is not")[0] + "."
            severity: Severity = "error"
        elif history.has(["train/dropped_iterations"]) and history["train/dropped_iterations"][-1]:
            count = int(history["train/dropped_iterations"][-1])
            seen = f"{count} iterations were dropped because a value was not finite."
            severity = "warning"
        else:
            return None
        if from_environment:
            advice = "Mend the environment: print what it computes in that step."
            return self.finding(history, seen, advice=advice, severity="error")
        rate = context.rate(context.learner.actor_optimizer)
        if math.isinf(context.learner.actor_optimizer.clip_norm):
            binding = context.names.line("ClippedOptimizer.clip_norm", 0.5)
        else:
            binding = context.rate_line(min(3e-4, rate / 10))
        return self.finding(history, seen, binding, severity=severity)


class RepeatedSteps(Diagnosis):
    """A quarter of the steps within episodes returned the observation before, over 2 % of the run.

    Standing still is rare where observations are real numbers. In a grid, walking against walls
    repeats a cell, but an agent that learns soon does so less than every fourth step.
    """

    name = "repeated steps"
    why = "A step that changes nothing teaches nothing, and its reward is credited to any action."
    needs = ("train/repeated_observations",)

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the share of repeated observations."""
        if not history.lasted(history["train/repeated_observations"] > 0.25, share=0.02):
            return None
        share = history.recent("train/repeated_observations")
        return self.finding(
            history,
            f"{share:.0%} of the steps within episodes returned the same observation as before.",
            advice=f"Step {context.experiment.environment.env_id} by hand and print what it "
            "returns: it drops actions, or returns a stale array.",
        )


class EqualEnvironments(Diagnosis):
    """All environments observed the same in half of the time steps, over 2 % of the run.

    A stochastic policy sends environments apart in the first steps of an episode.
    """

    name = "equal environments"
    why = "N copies of one episode are one episode's information at N times the cost."
    needs = ("train/equal_environments",)

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the share of time steps at which all observations were equal."""
        if not history.lasted(history["train/equal_environments"] > 0.5, share=0.02):
            return None
        share = history.recent("train/equal_environments")
        number = context.experiment.environment.num_envs
        return self.finding(
            history,
            f"In {share:.0%} of the time steps all {number} environments observed the same.",
            advice="Let reset(seed=…) pass its seed to super().reset and draw from self.np_random.",
        )


class ObservationScale(Diagnosis):
    """What the networks see is 10 times larger, or 50 times smaller, than unit scale.

    With orthogonal initialization tanh units saturate from inputs of about 3 standard deviations
    on; Andrychowicz et al. 2021 (section 3.5) find normalized observations crucial on most tasks.
    """

    name = "observation scale"
    why = (
        "Networks start for inputs near unit scale: far larger ones saturate or overwhelm them, "
        "far smaller ones look all alike."
    )
    needs = ("train/observation_rms",)

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the root mean square of the largest component."""
        rms = history["train/observation_rms"]
        if not history.lasted((rms > 10) | ((rms < 0.02) & (rms > 0)), share=0.01, reports=2):
            return None
        size = history.recent("train/observation_rms")
        extreme = "" if size < 1 else f", up to {amount(history['train/observation_max'][-1])}"
        seen = (
            f"The largest component of the observations has a root mean square of {amount(size)}"
            f"{extreme}; networks expect about 1."
        )
        if context.experiment.agent.observation_normalizer is not None:
            return self.finding(
                history, seen, advice="Scale the observations in the environment.", severity="info"
            )
        return self.finding(
            history, seen, "Agent.observation_normalizer = @ObservationNormalizer()"
        )


class NoReward(Diagnosis):
    """Every episode so far had the same return, over 20 episodes and 12 % of the run.

    A solved task has constant returns too, but not from the first episode on. Tasks with a far goal
    may need a while to reach it once, which is why this waits, and before training only notes it.
    """

    name = "no reward signal"
    why = "Where every action earns the same there is nothing to prefer: advantages are noise."
    needs = ("rollout/ep_rew_min", "rollout/ep_rew_max", "rollout/episodes")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the smallest and largest return."""
        lows, highs = history["rollout/ep_rew_min"], history["rollout/ep_rew_max"]
        known = np.isfinite(highs)
        if not known.any() or lows[known].min() != highs[known].max():
            return None
        episodes = int(history["rollout/episodes"][-1])
        if episodes < 5 or (not history.whole and (episodes < 20 or history.share < 0.12)):
            return None
        value = amount(float(highs[known][-1]))
        seen = f"All {episodes:,} episodes so far returned exactly {value}"
        limit, usual = context.time_limit, context.usual_limit
        cut = (
            history.has(["train/truncated_share"]) and history["train/terminated_share"].max() == 0
        )
        if cut and limit and usual and limit < usual:
            return self.finding(
                history,
                f"{seen}, each cut by the time limit of {limit} steps; "
                f"{context.experiment.environment.env_id} is registered with {usual}.",
                _without_limit(context),
            )
        what = "no reward but 0 was seen" if value == "0" else "the goal was never reached"
        return self.finding(
            history,
            f"{seen}: {what}.",
            advice="Reward progress on the way, start nearer the goal, or check that the "
            "environment returns its reward.",
            severity="info" if history.whole else "warning",
        )


def _without_limit(context: Context) -> str:
    """The binding that gives episodes their registered length."""
    options = dict(context.experiment.environment.env_options)
    if options.pop("max_episode_steps", None) is None:
        return ""
    return context.names.line("Environment.env_options", options or None)


class EpisodesCutShort(Diagnosis):
    """Nine episodes in ten end by a time limit below the registered one, over 5 % of the run.

    Truncation alone is no fault (Pendulum has nothing else): the value of the last observation
    stands in for what follows. But goals that lie behind the limit are never seen.
    """

    name = "episodes cut short"
    why = "What happens after the limit is never seen, so the critic can only guess it."
    needs = ("train/truncated_share", "train/terminated_share", "rollout/ep_len_mean")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From how episodes end."""
        limit, usual = context.time_limit, context.usual_limit
        if not limit or not usual or limit >= usual:
            return None
        cut, ended = history["train/truncated_share"], history["train/terminated_share"]
        if history.has(["rollout/episodes"]) and history["rollout/episodes"][-1] < 10:
            return None
        if history.whole:
            share = cut[-1] / max(cut[-1] + ended[-1], 1e-9)
        elif history.share < 0.05:
            return None
        else:
            late = [history.recent_values(tag, 0.05).sum() for tag in self.needs[:2]]
            share = late[0] / max(sum(late), 1e-9)
        if share < 0.9:
            return None
        return self.finding(
            history,
            f"{share:.0%} of the episodes are cut after {limit} steps; "
            f"{context.experiment.environment.env_id} is registered with {usual}.",
            _without_limit(context),
            advice="Give the environment its usual time limit.",
        )


class EvaluationGap(Diagnosis):
    """Two evaluations in a row fall short of all 100 recent training episodes.

    The mode of a good policy is about as good as its samples; where it is far worse, acting in
    evaluation differs from acting in training.
    """

    name = "evaluation gap"
    why = (
        "What is trained isn't what is evaluated: the policy lives off its noise, or evaluation "
        "sees other inputs."
    )
    needs = ("rollout/ep_rew_min", "rollout/ep_rew_mean", "rollout/ep_rew_max")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From evaluations during training."""
        if len(history.evaluations) < 2 or history.share < 0.1:
            return None
        low = history["rollout/ep_rew_min"][-1]
        spread = history["rollout/ep_rew_max"][-1] - low
        if not all(mean + std < low - 0.5 * spread for _, mean, std in history.evaluations[-2:]):
            return None
        mean, training = history.evaluations[-1][1], history["rollout/ep_rew_mean"][-1]
        return self.finding(
            history,
            f"The deterministic policy's evaluations return {amount(mean)}, training episodes "
            f"{amount(float(training))} and never less than {amount(float(low))}.",
            advice="Play an evaluation episode (python -m acx.play) and compare its observations "
            "with training's.",
        )


class SlowParts(Diagnosis):
    """Stepping environments takes over 90 % of the time, or writing reports over 20 %.

    Further processes pay off wherever there are cores for them; for steps below a tenth of a
    millisecond it isn't worth saying.
    """

    name = "slow parts"
    why = "The run waits for it; learning itself could go faster."
    needs = ("time/collect_s", "time/update_s", "time/report_s")

    def examine(self, history: History, context: Context) -> Finding | None:
        """From the clocks, once a tenth of the run is over."""
        if history.share < 0.1 or len(history) < 10:
            return None
        sums = {tag: float(history.recent_values(tag, 0.05).sum()) for tag in self.needs}
        total = max(sum(sums.values()), 1e-9)
        environments, reports = sums["time/collect_s"] / total, sums["time/report_s"] / total
        if reports > 0.2:
            every = context.experiment.log_every
            binding = context.names.line(
                "Experiment.log_every", every * max(round(reports / 0.05), 2)
            )
            seen = f"Writing reports takes {reports:.0%} of the time."
            return self.finding(history, seen, binding, severity="info")
        window = history.step - history.steps[max(len(history) - 11, 0)]
        slow = history["time/collect_s"][-10:].sum() > 1e-4 * window
        environment = context.experiment.environment
        processes = min(environment.num_envs, available_cores())
        sync = environment.vectorization == "sync"
        if environments > 0.9 and slow and sync and processes > 1:
            binding = context.names.line("Environment.vectorization", "parallel")
            seen = f"Stepping the environments takes {environments:.0%} of the time."
            return self.finding(history, seen, binding, severity="info")
        return None
