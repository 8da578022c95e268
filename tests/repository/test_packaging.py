"""The installed package, and the cost of importing it."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import entry_points, metadata, requires
from pathlib import Path

import pytest

import mqplug

pytestmark = pytest.mark.python

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.environ.get("TOX_ENV_NAME") != "wheel", reason="elsewhere the source itself is tested")
def test_what_is_tested_is_the_built_wheel():
    """In the environment for wheels the package is imported from the wheel, not from the checkout."""
    assert Path(mqplug.__file__).is_relative_to(sys.prefix)


@pytest.mark.skipif("TOX_ENV_NAME" not in os.environ, reason="outside tox the source itself is tested")
def test_the_description_has_no_broken_link():
    """The description on an index links to no file, as there is none beside it."""
    text = metadata("mqplug").get_payload() or metadata("mqplug")["Description"]
    assert "# mqplug" in text
    assert re.findall(r"\]\((?!https?://|#)[^)]*\)", text) == []
    assert "`mqplug docs`" in text


def test_requirements_are_three():
    """Without extras mqplug needs attrs, cattrs and pluggy, each with a lower bound."""
    needed = [line for line in requires("mqplug") or () if "extra ==" not in line]
    assert sorted(line.partition(">=")[0] for line in needed) == ["attrs", "cattrs", "pluggy"]


@pytest.mark.parametrize(
    ("package", "folder"),
    [
        ("confluent-kafka", "plugins/mqplug-kafka"),
        ("pulsar-client", "plugins/mqplug-pulsar"),
        ("pyspark", "contrib/mqplug-spark"),
    ],
)
def test_lowest_environments_have_the_oldest(package: str, folder: str):
    """`lowest-kafka`, `lowest-pulsar` and `lowest-spark` test the oldest accepted release of each."""
    if not (ROOT / "tox.ini").exists():
        pytest.skip("only the checkout has it")
    floor = re.search(rf"{package}>=([\d.]+)", (ROOT / folder / "setup.cfg").read_text())
    tested = re.search(rf"{package}==([\d.]+)", (ROOT / "tox.ini").read_text())
    assert floor
    assert tested
    assert tested[1] == f"{floor[1]}.0"


def test_installed_backends_load():
    """Each installed backend loads by its entry point."""
    points = entry_points(group="mqplug.backends")
    assert "memory" in points.names
    for point in points:
        point.load()
