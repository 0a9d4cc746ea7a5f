"""What documents show."""

import re
from typing import NamedTuple


class Block(NamedTuple):
    """A fenced block: what stands behind the fence, and the lines inside."""

    language: str
    text: str


def blocks(markdown: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", markdown, re.DOTALL | re.MULTILINE)
    return [Block(*pair) for pair in found]
