"""How much of the spread of final returns each swept hyperparameter explains."""

from collections.abc import Sequence

import pandas as pd

from analysis.errors import AnalysisError

INTERACTIONS = "interactions"
SEEDS = "seeds"


def importance(finals: pd.Series, configs: pd.DataFrame, names: Sequence[str]) -> pd.Series:
    """Split the variance of final returns (one per run) by cause, in shares that add up to one.

    A hyperparameter's share is the variance of its values' mean returns (its main effect, as in
    functional ANOVA: Hutter et al. 2014, "An Efficient Approach for Assessing Hyperparameter
    Importance"); "seeds" is what repetitions of one point differ by; "interactions" is the rest.
    The split is exact on a full grid and approximate where runs are missing or diverged (NaN).

    Raises:
        AnalysisError: nothing was swept, or fewer than two runs have a final return.
    """
    values = finals.dropna()
    if not names or len(values) < 2:
        raise AnalysisError("nothing was swept: importance needs runs of different configurations")
    keys = configs.loc[values.index, list(names)].map(str)
    total = float(values.var(ddof=0))
    if total == 0:
        return pd.Series(0.0, index=[*names, INTERACTIONS, SEEDS], name="share")
    shares = {name: _between(values, [keys[name]]) / total for name in names}
    points = _between(values, [keys[name] for name in names]) / total
    rest = max(points - sum(shares.values()), 0.0)
    ordered = pd.Series(shares).sort_values(ascending=False)
    return pd.concat([ordered, pd.Series({INTERACTIONS: rest, SEEDS: 1 - points})]).rename("share")


def _between(values: pd.Series, keys: Sequence[pd.Series]) -> float:
    """Return the variance of the groups' means, each run counted once."""
    return float(values.groupby(list(keys)).transform("mean").var(ddof=0))
