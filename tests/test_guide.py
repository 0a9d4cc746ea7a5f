"""What the guide shows works."""

import subprocess
import sys
from pathlib import Path

import pytest
from documents import blocks

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs/guide.md").read_text(encoding="utf-8")


def block(first_line: str) -> str:
    """The fenced block that starts with a line."""
    [text] = [text for _, text in blocks(GUIDE) if text.startswith(f"{first_line}\n")]
    return text


@pytest.fixture
def worked_example(tmp_path: Path) -> Path:
    (tmp_path / "my_advantage.py").write_text(block("# my_advantage.py"))
    (tmp_path / "my_experiment.gin").write_text(block("# my_experiment.gin"))
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    return tmp_path


def acx(folder: Path, *bindings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "acx.main", "--gin_file=my_experiment.gin", "--run_dir=run"]
    command += [f"--gin_bindings={binding}" for binding in bindings]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def test_the_worked_example_trains(worked_example: Path) -> None:
    done = acx(worked_example, "total_steps = 512", "Evaluation.final_episodes = 2")
    assert done.returncode == 0, done.stderr
    config = (worked_example / "run/config.gin").read_text()
    assert "ConstantBaseline.gamma = %gamma" in config
    assert "GAE" not in config


def test_the_worked_examples_annotations_are_checked(worked_example: Path) -> None:
    refused = acx(worked_example, "ConstantBaseline.gamma = 1.5")
    assert refused.returncode == 2
    assert "ConstantBaseline.gamma = 1.5: should be less than or equal to 1" in refused.stderr
    assert not (worked_example / "run").exists()
