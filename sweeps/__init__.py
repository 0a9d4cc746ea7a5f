"""Grids of experiments over gin values."""
