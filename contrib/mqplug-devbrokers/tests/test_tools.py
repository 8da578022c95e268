"""Java and Maven: what is missing is named, with how to install it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqplug_devbrokers import BrokerError, KafkaServer, MissingTool, _tools
from mqplug_devbrokers._tools import fill_in, find_java, maven


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A search path with nothing but what the test puts there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return folder


def install(program: Path, script: str) -> None:
    """Put a shell script in the place of a program."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_missing_java_says_what_to_install(path: Path) -> None:
    """Without java the error names it, the oldest version, and a package."""
    with pytest.raises(MissingTool, match=r"no java .* version 17 or newer .*openjdk-17-jre-headless"):
        find_java()


def test_a_server_without_java_leaves_nothing(path: Path, tmp_path: Path) -> None:
    """A start without Java fails at once, before anything is made."""
    server = KafkaServer(directory=tmp_path / "data")
    with pytest.raises(MissingTool, match="no java"):
        server.start()
    assert not (tmp_path / "data").exists()
    server.close()


def test_an_old_java_is_refused(path: Path) -> None:
    """A Java that cannot load the classes is named with its version."""
    install(path / "java", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    with pytest.raises(MissingTool, match=r"Java 11\.0\.2; install version 17"):
        find_java()


def test_a_java_that_fails_shows_what_it_said(path: Path) -> None:
    """Its own words and its status are in the error."""
    install(path / "java", "echo broken; exit 3")
    with pytest.raises(BrokerError, match=r"status 3:\nbroken"):
        find_java()


def test_java_home_goes_first(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME wins over the search path; and if there is no java in it, that is an error."""
    install(path / "java", "echo 'java version \"21.0.1\"'")
    home = tmp_path / "home"
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(MissingTool, match="under JAVA_HOME"):
        find_java()
    install(home / "bin" / "java", "echo 'openjdk version \"25\"'")
    assert find_java() == str(home / "bin" / "java")


def test_a_missing_maven_says_what_to_install(path: Path, tmp_path: Path) -> None:
    """Without mvn the error names it and why it is needed."""
    with pytest.raises(MissingTool, match=r"mvn was not found .* fills the cache once .*apt install maven"):
        maven("kafka-pom.xml", "1", "goal", tmp_path / "out")


def test_a_failing_maven_shows_its_last_lines(path: Path, tmp_path: Path) -> None:
    """Maven's own reason is in the error."""
    install(path / "java", "echo 'java version \"21.0.1\"'")
    install(path / "mvn", "echo no such artifact; exit 1")
    with pytest.raises(BrokerError, match=r"status 1:\nno such artifact"):
        maven("kafka-pom.xml", "1", "goal", tmp_path / "out")


def test_a_maven_that_hangs_is_ended(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The download has a deadline."""
    install(path / "java", "echo 'java version \"21.0.1\"'")
    install(path / "mvn", "exec /bin/sleep 1000")
    monkeypatch.setattr(_tools, "MAVEN_TIMEOUT_S", 0.2)
    with pytest.raises(BrokerError, match="timed out"):
        maven("kafka-pom.xml", "1", "goal", tmp_path / "out")


def test_settings_come_last() -> None:
    """A broker's configuration takes the last of two equal keys, so the user's go to the end."""
    text = fill_in("kafka-server.properties", {"num.io.threads": "9"}, PORT=1, CPORT=2, DATA="/data")
    assert text.endswith("num.io.threads=9\n")
    assert "@" not in text.replace("1@127", "")
