"""A pytest plugin that executes the snippets of Markdown pages: `pytest -p snippets README.md docs`.

Each page is one program: its Python blocks run in order, in one namespace, in an empty folder. The output of lines with
`>>>` is compared with the lines that follow them. In console blocks, the lines `$ mqplug …` and `$ … | mqplug …` also
run and must succeed.
Other console lines, such as installing and starting servers, are left to the test environments.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from doctest import ELLIPSIS
from pathlib import Path
from typing import Any

from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

COMMANDS = re.compile(r"(^\$ |\| )mqplug ")


def _enter(namespace: dict[str, Any]) -> None:
    namespace["_back"] = Path.cwd()
    namespace["_variables"] = dict(os.environ)
    namespace["_folder"] = tempfile.TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _leave(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_back"])
    os.environ.clear()
    os.environ.update(namespace["_variables"])
    namespace["_folder"].cleanup()


def _run_commands(example: Example) -> None:
    for line in example.parsed.splitlines():
        if line.startswith("$ ") and COMMANDS.search(line):
            command = COMMANDS.sub(lambda found: f"{found[1]}{sys.executable} -m mqplug_cli ", line)
            subprocess.run(command.removeprefix("$ "), shell=True, check=True, timeout=60)


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS),
        CodeBlockParser(language="console", evaluator=_run_commands),
        SkipParser(),
    ],
    path=str(Path(__file__).parents[1]),
    patterns=["*.md"],
    setup=_enter,
    teardown=_leave,
).pytest()
