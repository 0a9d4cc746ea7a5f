from pathlib import Path

import jupytext
import nbclient
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "analysis" / "notebooks").glob("0*.py"))


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_top_to_bottom_and_shows_figures(path, demo):
    source = path.read_text()
    own = 'RUNS = Path(analysis.__file__).parents[1] / "runs" / "demo"'
    assert source.count(own) == 1
    notebook = jupytext.reads(source.replace(own, f"RUNS = Path({str(demo)!r})"), fmt="py:percent")
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    figures = [item for item in outputs(notebook) if "image/png" in item.get("data", {})]
    assert len(figures) == source.count("plt.show()")
    assert not [item for item in outputs(notebook) if item.get("name") == "stderr"]
    assert "synthetic" in notebook.cells[0].source


def test_there_are_four_notebooks():
    assert [path.stem for path in NOTEBOOKS] == [
        "01_one_run",
        "02_compare_runs",
        "03_sweep",
        "04_publication_figures",
    ]
