"""The zip for executors without mqplug."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from zipfile import ZipFile

import pytest

from mqplug_spark.bundle import main, write_bundle

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import attrs, mqplug, mqplug_spark, pyspark_mqplug
assert all(sys.argv[1] in module.__file__ for module in (attrs, mqplug, mqplug_spark, pyspark_mqplug))
with mqplug.connect("rocksmq", path=sys.argv[2]) as mq:
    mq.create_topic("orders")
    print(mq.topics())
"""


def test_a_bundle_is_all_of_the_pure_python(tmp_path: Path) -> None:
    """A program with only the bundle and compiled packages finds the plugin and uses it."""
    bundle = tmp_path / "mqplug.zip"
    made = write_bundle(bundle, ["mqplug-rocksmq"])
    assert {each.partition(" ")[0] for each in made.held} >= {"attrs", "mqplug", "mqplug-rocksmq", "mqplug-spark"}
    assert [each.partition("==")[0] for each in made.left] == ["crc32c", "rocksdict"]
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, bundle, tmp_path / "store"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (0, "['orders']\n"), ran.stderr


def test_an_installed_native_part_is_named(tmp_path: Path) -> None:
    """The compiled part of a plugin that is installed here is listed for installation on the executors."""
    pytest.importorskip("mqplug_kafka_native", reason="mqplug-kafka-native is not installed")
    made = write_bundle(tmp_path / "mqplug.zip", ["mqplug-kafka"])
    assert [each.partition("==")[0] for each in made.left] == ["confluent-kafka", "mqplug-kafka-native"]


def test_a_bundle_is_the_same_file_each_time(tmp_path: Path) -> None:
    """Equal contents make equal bytes, with all installed plugins and without leftovers."""
    for name in "ab":
        write_bundle(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with ZipFile(tmp_path / "a") as archive:
        names = archive.namelist()
    assert {"mqplug_kafka/__init__.py", "mqplug_pulsar/__init__.py", "pyspark_mqplug/__init__.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name or "tests/" in name or name.startswith("pyspark/")]


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command lists the contents, and the packages to install on executors; a wrong call prints a reason."""
    assert main([str(tmp_path / "mqplug.zip"), "mqplug-kafka"]) == 0
    assert "Install the compiled packages on every executor: pip install confluent-kafka==" in capsys.readouterr().out
    assert main([]) == 2
    assert "usage: python -m mqplug_spark.bundle OUT.zip" in capsys.readouterr().err
    assert main([str(tmp_path / "mqplug.zip"), "mqplug-nowhere"]) == 1
    assert "mqplug-nowhere is not installed here" in capsys.readouterr().err
    with pytest.raises(PackageNotFoundError):
        write_bundle(tmp_path / "mqplug.zip", ["mqplug-nowhere"])
