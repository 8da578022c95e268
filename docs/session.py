"""The page of a session at the terminal: its commands with their output below.

`python -m docs.session` runs them and writes their output into the page; with `--check` it only compares, as a test
does.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent / "command-line-session.md"
STORE = "/var/lib/orders"  # the store on the page; a temporary one replaces it
MQPLUG = f'mqplug() {{ "{sys.executable}" -m mqplug_cli "$@"; }}; '


def session(page: str) -> str:
    """Return the page with the present output of its commands."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/store"
        return re.sub(r"(?<=```text\n)\$ .*?(?=```)", lambda block: _run(block[0], store), page, flags=re.DOTALL)


def _run(block: str, store: str) -> str:
    commands = re.findall(r"^\$ (.*)$", block, re.MULTILINE)
    return "".join(f"$ {command}\n{_printed(command, store)}" for command in commands)


def _printed(command: str, store: str) -> str:
    """Return the output of a command, including errors, with the path of the store on the page."""
    variables = {**os.environ, "NO_COLOR": "1", "TERM": "dumb", "MQPLUG_URL": f"rocksmq://{store}"}
    done = subprocess.run(
        ["bash", "-c", MQPLUG + command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env=variables, timeout=60, check=False,
    )  # fmt: skip
    text = done.stdout.replace(store, STORE)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n" * bool(text)


if __name__ == "__main__":
    written = PAGE.read_text()
    found = session(written)
    if "--check" not in sys.argv:
        PAGE.write_text(found)
    elif found != written:
        sys.exit("".join(difflib.unified_diff(written.splitlines(True), found.splitlines(True), "page", "now")))
