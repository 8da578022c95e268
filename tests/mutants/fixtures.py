"""Fixtures that the tests of the kit share."""

from __future__ import annotations

import os

import pytest

from mutants.matrix import Kills


@pytest.fixture(scope="session")
def matrix(tmp_path_factory):
    """The matrix of kills; workers of one run share their measurements."""
    folder = tmp_path_factory.getbasetemp()
    return Kills(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder)
