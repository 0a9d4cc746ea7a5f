"""Speed and learning, measured: each script prints a table and one summary line."""
