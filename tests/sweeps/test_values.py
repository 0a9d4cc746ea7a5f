"""Values as gin text, checked by gin's own parser."""

import math

import numpy as np
import pytest
from gin import config_parser
from hypothesis import given
from hypothesis import strategies as st

from acx.errors import ConfigError
from sweeps.values import literal, spoken, typed_column


class Delegate(config_parser.ParserDelegate):
    def configurable_reference(self, scoped_configurable_name, evaluate):
        return ("reference", scoped_configurable_name, evaluate)

    def macro(self, macro_name):
        return ("macro", macro_name)


def parsed(text):
    (statement,) = config_parser.ConfigParser(f"name = {text}", Delegate())
    return statement.value


simple = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text().filter(lambda text: not text.startswith(("@", "%"))),
)
values = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(st.text("abc"), inner)
    ),
    max_leaves=8,
)


@given(values)
def test_T58_every_value_comes_back_with_its_type(value):
    back = parsed(literal(value))
    assert back == value
    assert repr(back) == repr(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (math.inf, "1e999"),
        (-math.inf, "-1e999"),
        (np.float64(0.5), "0.5"),
        (np.int64(3), "3"),
        (np.bool_(True), "True"),
        (np.array([0.5, 1.0]), "[0.5, 1.0]"),
        ((64,), "(64,)"),
        ("@GaussianHead()", "@GaussianHead()"),
        (["@a/LinearDecay()", "%gamma"], "[@a/LinearDecay(), %gamma]"),
    ],
)
def test_T58_text_of_a_value(value, text):
    assert literal(value) == text


def test_numpy_float32_keeps_its_value():
    assert parsed(literal(np.float32(0.1))) == float(np.float32(0.1))


def test_references_stay_references():
    assert parsed(literal("@a/LinearDecay()")) == ("reference", "a/LinearDecay", True)
    assert parsed(literal("%gamma")) == ("macro", "gamma")


@pytest.mark.parametrize("value", [math.nan, np.float64("nan"), [0.5, math.nan], object()])
def test_values_without_gin_text_are_refused(value):
    with pytest.raises(ConfigError):
        literal(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0003, "0.0003"),
        (1.0, "1"),
        (1e-9, "1e-09"),
        (1_000_000, "1e+06"),
        (math.inf, "inf"),
        (None, "None"),
        (True, "True"),
        ((64, 64), "64x64"),
        ("@GaussianHead()", "GaussianHead"),
    ],
)
def test_spoken(value, text):
    assert spoken(value) == text


def test_columns_have_one_type():
    assert typed_column([1, 0.5]) == [1.0, 0.5]
    assert all(type(value) is float for value in typed_column([1, 2]))
    assert typed_column([0.5, None]) == ["0.5", "None"]
    assert typed_column([True, False]) == [True, False]
    assert typed_column([True, 1]) == ["True", "1"]
