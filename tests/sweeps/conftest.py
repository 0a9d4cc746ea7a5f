"""A finished sweep that several tests look at."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from sweeping import CUBE, Outcome, run_sweep


@dataclass(frozen=True)
class Swept:
    file: Path
    folder: Path
    outcome: Outcome


@pytest.fixture(scope="session")
def cube(tmp_path_factory):
    """A finished sweep of 2 × 2 × 2 points."""
    base = tmp_path_factory.mktemp("cube")
    file, folder = base / "cube.gin", base / "runs"
    file.write_text(CUBE)
    outcome = run_sweep(file, folder, "--workers=1")
    assert outcome.code == 0, outcome.err
    return Swept(file, folder, outcome)
