"""From event logs to tables, statistics, pictures and reports."""
