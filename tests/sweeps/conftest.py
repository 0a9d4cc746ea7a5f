"""A finished sweep that several tests look at, and its trials trained alone."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from absl.testing import flagsaver
from sweeping import CUBE, CUBE_TRIALS, TINY, Outcome, run_sweep


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


@pytest.fixture(scope="session")
def alone(tmp_path_factory):
    """The folder in which acx, without sweeps, trained each trial of the cube from nothing."""
    from acx import main

    folder = tmp_path_factory.mktemp("alone")
    for name, bindings in CUBE_TRIALS.items():
        options = [f"--gin_bindings={binding}" for binding in bindings]
        command = ["acx", f"--gin_file={TINY}", *options, f"--run_dir={folder / name}"]
        with pytest.MonkeyPatch.context() as patch, flagsaver.flagsaver():
            patch.setattr(sys, "argv", command)
            with pytest.raises(SystemExit) as stopped:
                main.run()
        assert not stopped.value.code
    return folder
