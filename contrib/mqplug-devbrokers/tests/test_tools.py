"""Java and Maven: errors for missing or failing tools, and the progress of downloads."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mqplug_devbrokers import BrokerError, KafkaServer, MissingTool, _tools
from mqplug_devbrokers._tools import fill_in, find_java, maven


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the whole search path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def install(program: Path, script: str) -> None:
    """Write a shell script as this program."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_missing_java_says_what_to_install(path: Path) -> None:
    """If java is missing, the error names the oldest usable version and a package to install."""
    with pytest.raises(MissingTool, match=r"no java .* version 17 or newer .*openjdk-17-jre-headless"):
        find_java()


def test_a_server_without_java_leaves_nothing(path: Path, tmp_path: Path) -> None:
    """A start without Java fails before it creates the server's directory."""
    server = KafkaServer(directory=tmp_path / "data")
    with pytest.raises(MissingTool, match="no java"):
        server.start()
    assert not (tmp_path / "data").exists()
    server.close()


def test_an_old_java_is_refused(path: Path) -> None:
    """A Java older than 17 is refused with its version in the error."""
    install(path / "java", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    with pytest.raises(MissingTool, match=r"Java 11\.0\.2; install version 17"):
        find_java()


def test_a_java_that_fails_shows_what_it_said(path: Path) -> None:
    """If java fails, the error shows its status and its output."""
    install(path / "java", "echo broken; exit 3")
    with pytest.raises(BrokerError, match=r"status 3:\nbroken"):
        find_java()


def test_java_home_goes_first(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME takes precedence over the search path, and raises an error if it contains no java."""
    install(path / "java", "echo 'java version \"21.0.1\"'")
    home = tmp_path / "home"
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(MissingTool, match="under JAVA_HOME"):
        find_java()
    install(home / "bin" / "java", "echo 'openjdk version \"25\"'")
    assert find_java() == str(home / "bin" / "java")


def test_a_missing_maven_says_what_to_install(path: Path, tmp_path: Path) -> None:
    """If mvn is missing, the error says why it is needed and how to install it."""
    with pytest.raises(MissingTool, match=r"mvn was not found .* fills the cache once .*apt install maven"):
        maven("kafka-pom.xml", "1", "goal", tmp_path / "out")


def test_a_failing_maven_shows_its_last_lines(path: Path, tmp_path: Path) -> None:
    """If Maven fails, the error shows its status and its last lines."""
    install(path / "java", "echo 'java version \"21.0.1\"'")
    install(path / "mvn", "echo no such artifact; exit 1")
    with pytest.raises(BrokerError, match=r"status 1:\nno such artifact"):
        maven("kafka-pom.xml", "1", "goal", tmp_path / "out")


def test_a_maven_that_hangs_is_ended(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Maven that exceeds its time limit is ended, with an error."""
    install(path / "java", "echo 'java version \"21.0.1\"'")
    install(path / "mvn", "exec /bin/sleep 1000")
    monkeypatch.setattr(_tools, "MAVEN_TIMEOUT_S", 0.2)
    with pytest.raises(BrokerError, match="timed out"):
        maven("kafka-pom.xml", "1", "goal", tmp_path / "out")


def test_settings_come_last() -> None:
    """The user's settings end the configuration file, because the broker uses the last of two equal keys."""
    text = fill_in("kafka-server.properties", {"num.io.threads": "9"}, NODE=1, VOTERS="1@127.0.0.1:2", DATA="/data")
    assert text.endswith("num.io.threads=9\n")
    assert "@" not in text.replace("1@127", "")


def test_a_download_shows_its_progress_in_a_terminal(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a terminal a download redraws one line with Maven's progress, and erases it at the end."""
    install(path / "java", "echo 'java version \"21.0.1\"'")
    install(path / "mvn", "echo \"$@\"; printf 'Progress (1): 1/2 MB\\rProgress (1): 2/2 MB   \\r'")
    monkeypatch.setattr(_tools, "REDRAW_S", 0)
    drawn = in_terminal(lambda: maven("kafka-pom.xml", "1", "goal", tmp_path / "out"), monkeypatch)
    assert "downloading kafka 1: 1/2 MB" in drawn
    assert "downloading kafka 1: 2/2 MB\r" in drawn
    assert drawn.endswith("\r\x1b[K")


def test_a_download_that_fails_in_a_terminal_shows_its_last_lines(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed download in a terminal raises an error with Maven's last lines, or one about the time limit."""
    install(path / "java", "echo 'java version \"21.0.1\"'")
    install(path / "mvn", "printf 'Progress (1): 1/2 MB\\r'; echo no such artifact; exit 1")
    with pytest.raises(BrokerError, match=r"status 1:\nno such artifact"):
        in_terminal(lambda: maven("kafka-pom.xml", "1", "goal", tmp_path / "out"), monkeypatch)
    install(path / "mvn", "exec /bin/sleep 1000")
    monkeypatch.setattr(_tools, "MAVEN_TIMEOUT_S", 0.2)
    shutil.rmtree(tmp_path / "project")
    with pytest.raises(BrokerError, match="timed out"):
        in_terminal(lambda: maven("kafka-pom.xml", "1", "goal", tmp_path / "out"), monkeypatch)


def test_a_download_is_silent_where_nobody_looks(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outside a terminal Maven runs quietly, and nothing is written."""
    install(path / "java", "echo 'java version \"21.0.1\"'")
    install(path / "mvn", f'echo "$@" > {tmp_path}/asked')
    maven("kafka-pom.xml", "1", "goal", tmp_path / "out")
    assert capsys.readouterr() == ("", "")
    assert "-B -q" in (tmp_path / "asked").read_text()


def in_terminal(do: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a function with a terminal as stderr, and return what it wrote there."""
    master, slave = os.openpty()
    try:
        with os.fdopen(slave, "w") as terminal, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", terminal)
            do()
        return b"".join(iter(lambda: read_terminal(master), b"")).decode()
    finally:
        os.close(master)


def read_terminal(master: int) -> bytes:
    """Return the next bytes of a terminal whose other end is closed, or no bytes at its end."""
    try:
        return os.read(master, 65536)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""
