import itertools
import subprocess
import sys
from pathlib import Path

import jupytext
import nbclient
import pytest

REPOSITORY = Path(__file__).parents[2]
NOTEBOOKS = sorted((REPOSITORY / "analysis" / "notebooks").glob("0*.py"))
PPO, A2C = "@ClippedSurrogate()", "@PolicyGradient()"


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def execute(path, runs, note="synthetic data"):
    """Run a notebook on the runs in a folder, of which its figures say `note`."""
    source = path.read_text().replace("synthetic data", note)
    own = 'RUNS = Path(analysis.__file__).parents[1] / "runs" / "demo"'
    assert source.count(own) == 1
    notebook = jupytext.reads(source.replace(own, f"RUNS = Path({str(runs)!r})"), fmt="py:percent")
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    figures = [item for item in outputs(notebook) if "image/png" in item.get("data", {})]
    assert len(figures) == source.count("plt.show()")
    assert not [item for item in outputs(notebook) if item.get("name") == "stderr"]
    return notebook


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_top_to_bottom_and_shows_figures(path, demo):
    assert "synthetic" in execute(path, demo).cells[0].source


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """Short runs of Pendulum that acx trained: PPO and A2C of three seeds, and a grid of 8 x 2."""
    root = tmp_path_factory.mktemp("real")
    grid = [
        {"gamma": gamma, "reward_scale": scale, "clip_norm": clip}
        for gamma, scale, clip in itertools.product((0.9, 0.99), (0.1, 1.0), (0.5, None))
    ]
    base = {"gamma": 0.95, "reward_scale": 0.1, "clip_norm": 0.5}
    objective = "Learner.policy_objective"
    sweeps = {
        "ppo": ([base | {objective: PPO}], 3),
        "a2c": ([base | {objective: A2C}], 3),
        "sweep": (grid, 2),
    }
    for name, (points, seeds) in sweeps.items():
        file = root / f"{name}.gin"
        file.write_text(
            "Sweep.experiment = 'experiments/pendulum.gin'\nSweep.strategy = @Points()\n"
            f"Points.points = {points}\nSweep.seeds = {seeds}\n"
            "Sweep.bindings = {'total_steps': 4_096}\n"
        )
        command = [sys.executable, "-m", "sweeps.run", f"--sweep={file}", "--workers=1"]
        where = f"--sweep_dir={root / name}"
        subprocess.run([*command, where], cwd=REPOSITORY, check=True, capture_output=True)
    (point,) = (root / "ppo").glob("gamma*")
    (point / "seed0").rename(root / "ppo" / "seed0")  # which the first notebook reads
    return root


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_on_runs_that_acx_trained(path, real, tmp_path):
    notebook = execute(path, real, "4,096 steps")
    jupytext.write(notebook, tmp_path / f"{path.stem}.ipynb")


def test_there_are_four_notebooks():
    assert [path.stem for path in NOTEBOOKS] == [
        "01_one_run",
        "02_compare_runs",
        "03_sweep",
        "04_publication_figures",
    ]
