"""Breaks runs on purpose, many times, and counts how often docs/reliability.md was right."""
