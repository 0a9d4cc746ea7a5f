import json
import re
import subprocess
import sys
from urllib.parse import unquote

import pandas as pd
import pytest
from browser import EXECUTABLE

from analysis.commands import run
from analysis.export import latex, markdown
from analysis.report import main


@pytest.fixture(scope="module")
def sweep(demo):
    """27 points with three seeds, three of the runs diverged."""
    return demo / "sweep"


@pytest.fixture(scope="module")
def sweep_page(sweep):
    out = sweep.parent / "pages" / "report.html"
    assert run(main, [f"--logdir={sweep}", f"--out={out}"]) == 0
    return out


def test_the_page_of_a_large_sweep_is_small_and_needs_nothing_else(sweep_page):
    content = sweep_page.read_text()
    assert sweep_page.stat().st_size < 5e6
    assert all(source.startswith("data:") for source in re.findall(r'src="([^"]*)', content))
    assert "http" not in re.sub(r"base64,[A-Za-z0-9+/=]*", "", content)
    assert content.count("<img") == 3 + 4 + 6  # curves, intervals, profile; sweep; diagnostics


def test_the_page_says_what_was_run_and_what_went_wrong(sweep_page):
    content = re.sub(r"<[^>]+>", "", sweep_page.read_text())
    assert "81 runs in 27 configurations" in content
    assert "3 runs diverged" in content
    assert "rewards scaled by 10" in content
    assert "What all share" in content


def test_links_lead_to_the_run_folders(sweep_page, sweep):
    links = re.findall(r'<a href="([^"]+)"', sweep_page.read_text())
    assert len(links) == 81
    targets = {(sweep_page.parent / unquote(link)).resolve() for link in links}
    assert targets == {path.parent.resolve() for path in sweep.rglob("config.gin")}


@pytest.mark.skipif(EXECUTABLE is None, reason="no Chromium here")
def test_the_page_opens_in_a_browser_without_errors(sweep_page, tmp_path):
    probe = (
        "<script>console.log('pictures', [...document.images].every(i => i.naturalWidth))</script>"
    )
    probed = tmp_path / "probed.html"
    probed.write_text(sweep_page.read_text().replace("</body>", probe + "</body>"))
    flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--enable-logging=stderr"]
    offline = ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path}/profile"]
    done = subprocess.run(
        [EXECUTABLE, *flags, *offline, "--dump-dom", probed.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = [line.split("CONSOLE", 1)[1] for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert len(said) == 1, said
    assert "pictures true" in said[0]
    assert "Pendulum-v1" in done.stdout


def test_names_are_escaped(make_run):
    folder = make_run("<b>&", {"seed": 0}, [1.0, 2.0], message="<script>alert(1)</script>")
    out = folder.parent / "r.html"
    assert run(main, [f"--logdir={folder}", f"--out={out}"]) == 0
    content = out.read_text()
    assert "<script>" not in content
    assert "&lt;b&gt;&amp;" in content


def test_a_setting_that_is_none_is_shown_as_such(make_run):
    for clip in (None, 0.5):
        for gamma in (0.9, 0.99):
            config = {"clip": clip, "gamma": gamma, "seed": 0}
            root = make_run(f"{clip}/{gamma}", config, [1.0, gamma]).parents[1]
    out = root / "r.html"
    assert run(main, [f"--logdir={root}", f"--out={out}"]) == 0
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", out.read_text())
    assert cells.count("None") == 2
    assert "nan" not in cells


def test_tasks_are_reported_one_by_one(make_run):
    for task in ("CartPole-v1", "Pendulum-v1"):
        for seed in (0, 1):
            config = {"Environment.env_id": task, "seed": seed}
            root = make_run(f"{task}/{seed}", config, [1.0, 2.0 + seed], experiment=task).parents[1]
    out = root / "r.html"
    assert run(main, [f"--logdir={root}", f"--out={out}"]) == 0
    assert re.findall(r"<h2>(.*?)</h2>", out.read_text())[:2] == ["CartPole-v1", "Pendulum-v1"]
    assert "Best:" not in out.read_text()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_exported_tables_read_back(sweep, tmp_path, kind):
    assert run(main, [f"--logdir={sweep}", f"--out={tmp_path}", f"--format={kind}"]) == 0
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[kind]
    runs = read(tmp_path / f"runs.{kind}")
    assert len(runs) == 81
    assert runs["diverged"].sum() == 3
    assert len(read(tmp_path / f"groups.{kind}")) == 27
    assert read(tmp_path / f"configs.{kind}")["gamma"].nunique() == 3
    assert len(read(tmp_path / f"findings.{kind}")) == 3


TABLE = pd.DataFrame(
    {"mean": [1234.5, float("nan")], "note": ["50 % of a_b", "x|y"]},
    index=pd.Index(["A&B", "C"], name="group"),
)


def test_markdown_by_hand():
    assert markdown(TABLE) == (
        "| group | mean | note |\n"
        "| :--- | ---: | :--- |\n"
        "| A&B | 1,234 | 50 % of a_b |\n"
        "| C |  | x\\|y |\n"
    )


def test_latex_by_hand():
    assert latex(TABLE) == (
        "\\begin{tabular}{lrl}\n\\toprule\ngroup & mean & note \\\\\n\\midrule\n"
        "A\\&B & 1,234 & 50 \\% of a\\_b \\\\\nC &  & x|y \\\\\n\\bottomrule\n\\end{tabular}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--logdir=nothing"], "nothing doesn't exist"),
        (["--logdir=runs", "--tag=eval/mean_rewards"], "there is eval/mean_reward"),
        (["--logdir=runs", "--names=nobody"], "tags of 'nobody' are not known"),
        (["--logdir=runs", "--out=runs"], "can't write runs: Is a directory"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(make_run, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(make_run("a", {"seed": 1}, [1.0]).parents[1])
    assert run(main, arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_command_runs_without_tensorflow_or_plots_for_tables(make_run, tmp_path):
    folder = make_run("a", {"seed": 1}, [1.0])
    script = (
        "import sys\n"
        "for name in ('tensorflow', 'keras', 'acx', 'matplotlib', 'scipy'):\n"
        "    sys.modules[name] = None\n"
        "from analysis.commands import run\n"
        "from analysis.report import main\n"
        "sys.exit(run(main, sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, f"--logdir={folder}", f"--out={tmp_path / 'tables'}"]
    done = subprocess.run([*command, "--format=markdown"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "| pendulum |" in (tmp_path / "tables" / "groups.md").read_text()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "the report needs matplotlib: pip install" in done.stderr


def test_findings_that_are_no_list_are_refused(make_run, capsys):
    folder = make_run("a", {"seed": 1}, [1.0])
    (folder / "health.json").write_text(json.dumps({"step": 1}))
    assert run(main, [f"--logdir={folder}", f"--out={folder}/r.html"]) == 2
    assert "health.json: not a list of findings" in capsys.readouterr().err
