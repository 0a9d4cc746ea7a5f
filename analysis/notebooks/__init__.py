"""Notebooks, and the synthetic runs that they are shown on."""
