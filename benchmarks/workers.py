"""Processes that measure something and print it as a JSON object on their last line."""

import json
import os
import statistics
import subprocess
from typing import Any

Measured = dict[str, Any]


def measure(command: list[str]) -> Measured:
    """Run a worker; returns the JSON object of its last line."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    found: Measured = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def median(system: Measured, key: str) -> float:
    """The median of a figure over a system's runs."""
    return statistics.median(run[key] for run in system["runs"])
