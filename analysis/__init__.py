"""From event logs to tables, statistics, pictures and reports.

>>> from analysis import load_runs
>>> returns = load_runs("runs/pendulum", tags="eval/mean_reward")  # doctest: +SKIP
"""

from analysis.errors import AnalysisError, EventLogWarning
from analysis.load import load_configs, load_runs, load_status

__all__ = ["AnalysisError", "EventLogWarning", "load_configs", "load_runs", "load_status"]
