"""Deliberately sick experiments, to measure what the doctor finds and whether its advice works."""
