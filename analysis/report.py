"""Write what a folder of runs says into one HTML page, or its tables into files.

python -m analysis.report --logdir=runs/pendulum --out=report.html
python -m analysis.report --logdir=runs/pendulum --out=tables --format=csv
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.commands import parser, run
from analysis.errors import AnalysisError
from analysis.export import FORMATS, export
from analysis.folders import Paths, find_runs
from analysis.load import load_configs, load_runs, load_status
from analysis.metadata import health_findings
from analysis.summary import group_summary, return_tag, run_summary


@dataclass(frozen=True)
class Results:
    """All tables of a report; runs and configs are indexed by run, groups by label."""

    points: pd.DataFrame
    runs: pd.DataFrame
    groups: pd.DataFrame
    configs: pd.DataFrame
    findings: pd.DataFrame
    tag: str


def gather(
    paths: Paths, tag: str | None = None, names: str | None = None, threshold: float | None = None
) -> Results:
    """Read runs and summarize them.

    Raises:
        AnalysisError: no runs, or no run has the tag.
    """
    points = load_runs(paths, names=names)
    tag = tag or return_tag(points)
    if not (points["tag"] == tag).any():
        load_runs(paths, tags=tag, names=names)  # raises, naming the nearest tags
    status = load_status(paths)
    runs = run_summary(points, status, tag, threshold)
    runs = runs.join(status[["experiment", "env_steps", "total_steps", "message", "path"]])
    findings = [
        {"run": found.name, **finding}
        for found in find_runs(paths)
        for finding in health_findings(found)
    ]
    return Results(
        points, runs, group_summary(runs), load_configs(paths), pd.DataFrame(findings), tag
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Parse the command line and write the page or the tables."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--logdir", nargs="+", required=True, help="runs, folders of runs or 'patterns'"
    )
    arguments.add_argument("--out", type=Path, help="the page (report.html), or the tables' folder")
    arguments.add_argument("--format", choices=["html", *FORMATS], default="html")
    arguments.add_argument(
        "--threshold", type=float, help="a return; the report tells when each run reached it"
    )
    given = arguments.parse_args(argv)
    results = gather(given.logdir, given.tag, given.names, given.threshold)
    if given.format != "html":
        for path in export(_tables(results), given.out or Path("tables"), given.format):
            print(path)
        return
    try:
        from analysis.report_page import report
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise AnalysisError(
            f"the report needs {package}: pip install 'acx[plots]'; tables don't (--format=csv)"
        ) from None
    out = given.out or Path("report.html")
    title = ", ".join(Path(path).name or str(path) for path in given.logdir)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(report(results, title, out.parent), encoding="utf-8")
    except OSError as error:
        raise AnalysisError(f"can't write {out}: {error.strerror}") from None
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB)")


def _tables(results: Results) -> dict[str, pd.DataFrame]:
    tables = {"runs": results.runs, "groups": results.groups, "configs": results.configs}
    return tables | ({"findings": results.findings} if len(results.findings) else {})


if __name__ == "__main__":
    sys.exit(run(main))
