"""Finds Java and Maven, runs them, shows the progress of a download in the terminal, and fills in templates."""

from __future__ import annotations

import functools
import os
import re
import select
import shutil
import subprocess
import sys
import time
from collections import deque
from importlib.resources import files
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from mqplug_devbrokers._errors import BrokerError, MissingTool

if TYPE_CHECKING:
    from collections.abc import Iterator

MIN_JAVA_VERSION = 17  # Kafka 4 and Pulsar 4 are compiled for it
MAVEN_TIMEOUT_S = 900.0

TAIL_LINES = 20
REDRAW_S = 0.2
CLEAR_LINE = "\r\x1b[K"


def template(name: str) -> str:
    """Return the text of a data file of this package."""
    return files("mqplug_devbrokers").joinpath("data", name).read_text(encoding="utf-8")


def fill_in(name: str, settings: dict[str, str], **values: object) -> str:
    """Fill in the @NAMES@ of a configuration template, and append settings, which override earlier ones."""
    text = re.sub(r"@([A-Z]+)@", lambda match: str(values[match[1]]), template(name))
    return text + "".join(f"{key}={value}\n" for key, value in settings.items())


def find_java() -> str:
    """Return the path of a Java that is new enough, from JAVA_HOME or else the search path."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if java is None:
        place = f"under JAVA_HOME ({home})" if home else "on the search path"
        raise MissingTool(
            f"no java was found {place}; install a Java runtime, version {MIN_JAVA_VERSION} or newer "
            "(Debian, Ubuntu: apt install openjdk-17-jre-headless), or set JAVA_HOME"
        )
    found = java_version(java)
    if int(found.partition(".")[0]) < MIN_JAVA_VERSION:
        raise MissingTool(f"{java} is Java {found}; install version {MIN_JAVA_VERSION} or newer, or set JAVA_HOME")
    return java


@functools.cache
def java_version(java: str) -> str:
    """Return the version that this Java reports, such as `17.0.15`."""
    answer = run_tool([java, "-version"], timeout=60)
    match = re.search(r'version "([^"]+)"', answer)
    if match is None:
        raise MissingTool(
            f"{java} did not report a version; install Java {MIN_JAVA_VERSION} or newer. Its output: {answer}"
        )
    return match[1]


def maven(pom: str, version: str, goal: str, output: Path) -> None:
    """Run one goal of the POM template `pom` for this version, with the results in the folder `output`."""
    mvn = shutil.which("mvn")
    if mvn is None:
        raise MissingTool(
            "mvn was not found on the search path; install Maven 3.6 or newer, which fills the cache once "
            "(Debian, Ubuntu: apt install maven)"
        )
    find_java()
    project = output.parent / "project"
    project.mkdir()
    file = project / "pom.xml"
    file.write_text(template(pom).replace("@VERSION@", version), encoding="utf-8")
    command = [mvn, "-Dstyle.color=never", "-f", str(file), goal, f"-DoutputDirectory={output}"]
    if sys.stderr.isatty():
        label = f"downloading {pom.removesuffix('-pom.xml')} {version}"
        run_shown(command, label, timeout=MAVEN_TIMEOUT_S)
    else:
        run_tool([*command, "-B", "-q"], timeout=MAVEN_TIMEOUT_S)


def run_tool(command: list[str], *, timeout: float) -> str:
    """Return the output of a command. A failure raises an error with the end of its output."""
    try:
        done = subprocess.run(  # noqa: S603  the command is ours
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, timeout=timeout, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerError(f"{command[0]} did not run to completion: {error}") from error
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-20:])
        raise BrokerError(f"{' '.join(command)} failed with status {done.returncode}:\n{tail}")
    return done.stdout


def run_shown(command: list[str], label: str, *, timeout: float) -> None:
    """Run Maven, and show what it is downloading. A failure raises an error with the end of its output."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    drawn = 0.0
    with subprocess.Popen(  # noqa: S603  the command is ours
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            for line in _lines(process, time.monotonic() + timeout):
                progress = re.match(r"Progress \(\d+\): (.*?) *$", line)
                if progress is None:
                    tail.append(line)
                elif time.monotonic() > drawn + REDRAW_S:
                    drawn = time.monotonic()
                    _draw(f"{label}: {progress[1]}")
        except subprocess.TimeoutExpired as error:
            raise BrokerError(f"{command[0]} did not run to completion: {error}") from error
        finally:
            process.kill()
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()
    if process.returncode:
        raise BrokerError(f"{' '.join(command)} failed with status {process.returncode}:\n" + "\n".join(tail))


def _lines(process: subprocess.Popen[bytes], deadline: float) -> Iterator[str]:
    """Yield the lines of the output, including overwritten ones."""
    output = cast("IO[bytes]", process.stdout)
    rest = b""
    while True:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([output], [], [], max(0.0, left))
        if not ready:
            raise subprocess.TimeoutExpired(process.args, deadline - time.monotonic())
        data = os.read(output.fileno(), 65536)
        *whole, rest = re.split(rb"[\r\n]+", rest + data)
        yield from (line.decode(errors="replace") for line in whole)
        if not data:
            process.wait(max(1.0, left))
            return


def _draw(text: str) -> None:
    width = shutil.get_terminal_size().columns - 1
    sys.stderr.write(CLEAR_LINE + text[:width])
    sys.stderr.flush()
