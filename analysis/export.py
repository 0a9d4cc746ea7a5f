"""Tables as files for other programs: CSV, Parquet, LaTeX and Markdown."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from analysis.errors import AnalysisError
from analysis.wording import number

Writer = Callable[[pd.DataFrame, Path], None]

_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
    }
)


def markdown(table: pd.DataFrame) -> str:
    """Return a table in GitHub's Markdown, its index first."""
    names, rows, numeric = _cells(table)
    marks = ["---:" if number else ":---" for number in numeric]
    lines = [names, marks, *rows]
    return "".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )


def latex(table: pd.DataFrame) -> str:
    """Return a table as a LaTeX tabular with the rules of booktabs, its index first."""
    names, rows, numeric = _cells(table)
    columns = "".join("r" if number else "l" for number in numeric)
    lines = [
        " & ".join(cell.translate(_LATEX) for cell in line) + r" \\" for line in [names, *rows]
    ]
    head, *body = lines
    frame = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule"]
    return "\n".join([*frame, *body, r"\bottomrule", r"\end{tabular}", ""])


def _cells(table: pd.DataFrame) -> tuple[list[str], list[list[str]], list[bool]]:
    shown = table.reset_index()
    numeric = [pd.api.types.is_numeric_dtype(dtype) for dtype in shown.dtypes]
    rows = [
        [
            number(value) if figure else " ".join(str(value).split())
            for value, figure in zip(row, numeric, strict=True)
        ]
        for row in shown.itertuples(index=False)
    ]
    return [str(name) for name in shown.columns], rows, numeric


def _parquet(table: pd.DataFrame, path: Path) -> None:
    try:
        table.to_parquet(path)
    except ImportError:
        raise AnalysisError("Parquet needs pyarrow: pip install 'acx[parquet]'") from None


FORMATS: dict[str, tuple[str, Writer]] = {
    "csv": ("csv", lambda table, path: table.to_csv(path)),
    "parquet": ("parquet", _parquet),
    "latex": ("tex", lambda table, path: _write(path, latex(table))),
    "markdown": ("md", lambda table, path: _write(path, markdown(table))),
}


def _write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")


def export(tables: Mapping[str, pd.DataFrame], folder: Path, kind: str) -> list[Path]:
    """Write each table to `folder`/<name>.<ending of the format>; return the files.

    Raises:
        AnalysisError: the folder can't be written, or Parquet lacks its library.
    """
    ending, write = FORMATS[kind]
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            paths.append(folder / f"{name}.{ending}")
            write(table, paths[-1])
    except OSError as error:
        raise AnalysisError(f"can't write {folder}: {error.strerror}") from None
    return paths
