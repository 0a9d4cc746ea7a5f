"""Each section of docs/pitfalls.md shows what its code prints, and names tests that exist."""

import ast
import functools
import re
import runpy
import warnings
from pathlib import Path

import pytest
from documents import blocks

ROOT = Path(__file__).parent.parent
PITFALLS = (ROOT / "docs/pitfalls.md").read_text(encoding="utf-8")
INTRODUCTION, *PARTS = re.split(r"^### (.+)\n", PITFALLS, flags=re.MULTILINE)
SECTIONS = dict(zip(PARTS[::2], PARTS[1::2], strict=True))


@pytest.mark.parametrize("title", SECTIONS)
def test_a_snippet_prints_what_is_shown(title, tmp_path, capsys):
    [code, shown] = blocks(SECTIONS[title])
    assert (code.language, shown.language) == ("python", "text")
    script = tmp_path / "snippet.py"
    script.write_text(code.text, encoding="utf-8")
    with warnings.catch_warnings():  # that is what the traps are: at best a warning
        warnings.simplefilter("ignore")
        runpy.run_path(str(script))
    assert capsys.readouterr().out == shown.text


@functools.cache
def functions_of(file):
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("title", SECTIONS)
def test_the_named_tests_exist(title):
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", SECTIONS[title])
    assert named
    assert [test for file, test in named if test not in functions_of(file)] == []


def test_the_named_diagnoses_exist():
    prose = re.sub(r"^```.*?^```$", "", PITFALLS, flags=re.DOTALL | re.MULTILINE)
    named = re.findall(r"(?<!\*)\*(\w[^*]*)\*(?!\*)", " ".join(prose.split()))
    assert len(named) > 10
    modules = (ROOT / "acx/health").glob("*.py")
    health = "".join(module.read_text(encoding="utf-8") for module in modules)
    assert [name for name in named if f'"{name}"' not in health] == []


def test_the_contents_lead_to_every_section():
    anchors = re.findall(r"\]\(#([^)]+)\)", INTRODUCTION)
    headings = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in SECTIONS]
    assert anchors == headings
