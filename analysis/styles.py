"""One color and line for each group, the same in every figure, told apart by the color-blind.

The colors are those of Okabe and Ito, "Color Universal Design" (2008), with a brown in place of
yellow, which is too pale on white; black is for text.
"""

import zlib
from collections.abc import Iterable
from typing import NamedTuple

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F4F24")
DASHES = ("-", "--", ":", "-.")
MUTED = "#B8B8B8"
TEXT = "#222222"


class Style(NamedTuple):
    """How a group is drawn: a color as #RRGGBB and Matplotlib's line style."""

    color: str
    dash: str


def styles(labels: Iterable[str]) -> dict[str, Style]:
    """Give each label a style that depends on its name; if two collide, the later one moves.

    The first seven differ in color, the next seven repeat the colors with dashes, and so on. Make
    one table of styles for all figures that are seen together.
    """
    slots = [Style(color, dash) for dash in DASHES for color in COLORS]
    taken: dict[str, int] = {}
    for label in dict.fromkeys(labels):
        wish = zlib.crc32(label.encode()) % len(COLORS)
        ring = len(taken) // len(COLORS) % len(DASHES) * len(COLORS)
        free = set(range(ring, ring + len(COLORS))) - set(taken.values()) or set(range(len(COLORS)))
        taken[label] = min(free, key=lambda slot: (slot - wish) % len(COLORS))
    return {label: slots[slot] for label, slot in taken.items()}


def short_names(labels: Iterable[str]) -> dict[str, str]:
    """Leave out the experiment's name where all labels begin with the same."""
    labels = list(labels)
    heads = {label.partition(" ")[0] for label in labels}
    shared = len(labels) > 1 and len(heads) == 1
    return {label: label.partition(" ")[2] or label if shared else label for label in labels}
