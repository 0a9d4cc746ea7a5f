"""Fixtures that several test modules share."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read when TensorFlow is imported

import gin
import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread_an_operation():
    """As in training; must come before TensorFlow's first computation."""
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].config.threading.set_intra_op_parallelism_threads(1)


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    """So that 'parallel' has a second process wherever the tests run, and only one."""
    monkeypatch.setattr("acx.environments.parallel.available_cores", lambda: 2)


@pytest.fixture(autouse=True)
def _empty_gin():
    """No test sees another one's configuration."""
    gin.clear_config(clear_constants=True)
    yield
    gin.clear_config(clear_constants=True)
