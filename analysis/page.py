"""One self-contained HTML page: tables and pictures inside it, nothing loaded from anywhere."""

import base64
import html
import io
from collections.abc import Callable, Iterable, Mapping

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.wording import number

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff;
       max-width: 66rem; margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.7rem; margin-bottom: .2rem; } h2 { margin-top: 2.4rem; font-size: 1.25rem; }
h3 { margin: 1.6rem 0 .4rem; font-size: 1.02rem; }
p.lead { font-size: 1.05rem; } .muted, figcaption { color: #595959; }
figure { margin: .6rem 0 1.2rem; } figure img { max-width: 100%; height: auto; display: block; }
figcaption { font-size: .87rem; }
.figures { display: flex; flex-wrap: wrap; gap: 0 1.5rem; }
.scroll { overflow-x: auto; max-height: 32rem; margin: .6rem 0 1rem; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
th, td { padding: .28rem .7rem; text-align: left; border-bottom: 1px solid #e6e6e6;
         white-space: nowrap; vertical-align: top; }
th { position: sticky; top: 0; background: #f6f6f6; }
td.number, th.number { text-align: right; } td.long { white-space: normal; min-width: 10rem; }
.swatch { display: inline-block; width: .75rem; height: .75rem; border-radius: 2px;
          margin-right: .5rem; vertical-align: -1px; }
.warning { border-left: 4px solid #D55E00; background: #fdf3ec; padding: .5rem 1rem;
           margin: 1rem 0; }
details { margin: 1rem 0; } summary { cursor: pointer; } a { color: #005a8e; }
"""


class Html(str):
    """Text that is HTML already; everything else is escaped."""


def page(title: str, parts: Iterable[str]) -> str:
    """Return a whole document."""
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        f"{body}\n</body></html>\n"
    )


def element(name: str, content: object, **attributes: str) -> Html:
    """Return one element; its content is escaped unless it is HTML. `class_` gives its class."""
    shown = "".join(
        f' {key.rstrip("_")}="{html.escape(value)}"' for key, value in attributes.items()
    )
    return Html(f"<{name}{shown}>{_escaped(content)}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Return several pieces one after the other."""
    return Html("".join(_escaped(part) for part in parts))


def _escaped(content: object) -> str:
    return content if isinstance(content, Html) else html.escape(str(content))


def table(
    rows: pd.DataFrame,
    long: Iterable[str] = (),
    drawn: Mapping[str, Callable[[str], Html]] | None = None,
) -> Html:
    """Return a data frame as a table, its index first.

    Columns named in `long` may wrap; those in `drawn` are made into HTML by its functions.
    """
    shown = rows.reset_index()
    numeric = [pd.api.types.is_numeric_dtype(dtype) for dtype in shown.dtypes]
    classes = [
        "number" if number else "long" if name in long else ""
        for name, number in zip(shown.columns, numeric, strict=True)
    ]
    makers = [(drawn or {}).get(str(name), lambda value: value) for name in shown.columns]
    head = joined(
        element("th", name, class_=kind) for name, kind in zip(shown.columns, classes, strict=True)
    )
    body = []
    for row in shown.itertuples(index=False):
        cells = zip(row, classes, makers, strict=True)
        made = [
            _cell(value if kind == "number" else make(value), kind) for value, kind, make in cells
        ]
        body.append(element("tr", joined(made)))
    inner = joined([element("thead", element("tr", head)), element("tbody", joined(body))])
    return element("div", element("table", inner), class_="scroll")


def _cell(value: object, kind: str) -> Html:
    return element("td", number(value) if kind == "number" else value, class_=kind)


def figure(draw: Callable[[Axes], None], size: tuple[float, float], caption: str) -> Html:
    """Draw a picture of `size` (inches) and return it as an inline SVG image."""
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "acx", "font.size": 10}):
        picture = Figure(figsize=size, layout="constrained")
        draw(picture.subplots())
        buffer = io.BytesIO()
        picture.savefig(buffer, format="svg", metadata={"Date": None})
    source = f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    image = Html(f'<img alt="{html.escape(caption)}" src="{source}">')
    return element("figure", joined([image, element("figcaption", caption)]))
