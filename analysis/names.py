"""Tags of other libraries in acx's terms, which are those of Stable-Baselines3."""

from collections.abc import Mapping

from analysis.errors import AnalysisError

CLEANRL = {
    "charts/episodic_return": "rollout/ep_rew_mean",
    "charts/episodic_length": "rollout/ep_len_mean",
    "eval/episodic_return": "eval/mean_reward",
    "charts/SPS": "time/fps",
    "charts/learning_rate": "train/learning_rate",
    "losses/policy_loss": "train/policy_gradient_loss",
    "losses/value_loss": "train/value_loss",
    "losses/entropy": "train/entropy",
    "losses/approx_kl": "train/approx_kl",
    "losses/clipfrac": "train/clip_fraction",
    "losses/explained_variance": "train/explained_variance",
}
TF_AGENTS = {
    "Metrics/AverageReturn": "rollout/ep_rew_mean",
    "Metrics/AverageEpisodeLength": "rollout/ep_len_mean",
    "policy_gradient_loss": "train/policy_gradient_loss",
    "value_estimation_loss": "train/value_loss",
    "policy_entropy_mean": "train/entropy",
    "mean_kl_divergence": "train/approx_kl",
    "clip_fraction": "train/clip_fraction",
    "learning_rate": "train/learning_rate",
    "total_abs_loss": "train/loss",
}
DOPAMINE = {
    "Train/AverageReturns": "rollout/ep_rew_mean",
    "Eval/AverageReturns": "eval/mean_reward",
    "Train/AverageStepsPerSecond": "time/fps",
}
# CleanRL writes these once per episode: several may share a step, and all of them count.
PER_EPISODE = frozenset({"charts/episodic_return", "charts/episodic_length"})

_LIBRARIES = {"sb3": {}, "cleanrl": CLEANRL, "tf-agents": TF_AGENTS, "dopamine": DOPAMINE}


def tag_names(names: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """Return the mapping from a library's tags to acx's: {their tag: our tag}.

    Raises:
        AnalysisError: the library isn't one of those known.
    """
    if not isinstance(names, str):
        return names or {}
    if names.lower() not in _LIBRARIES:
        known = ", ".join(_LIBRARIES)
        raise AnalysisError(f"tags of {names!r} are not known; name one of {known}, or give a dict")
    return _LIBRARIES[names.lower()]
