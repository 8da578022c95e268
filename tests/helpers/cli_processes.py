"""The command line as processes, on one backend."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys

import mqplug

MQPLUG = [sys.executable, "-m", "mqplug_cli"]
ENVIRONMENT = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
PATIENCE_S = 60

_numbers = itertools.count()


class Cluster:
    """One backend, and the command line for it."""

    def __init__(self, backend, url, folder, server=None):
        self.backend = backend
        self.url = url
        self.folder = folder
        self.server = server

    def __repr__(self):
        return self.backend

    def found(self, verb, *arguments):
        """Return what a verb prints as JSON; it must succeed."""
        done = self.run(verb, *arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run(self, verb, *arguments, given="", **environment):
        """Return the finished process of a verb on this backend, with its output."""
        return subprocess.run(
            self.command(verb, *arguments),
            input=given, capture_output=True, text=isinstance(given, str), check=False, timeout=PATIENCE_S,
            cwd=self.folder, env=self.environment(**environment),
        )  # fmt: skip

    def start(self, verb, *arguments, url=None, **streams):
        """Start a verb on this backend. Its output is a pipe, unless ``streams`` says otherwise."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = self.command(verb, *arguments, url=url)
        return subprocess.Popen(command, cwd=self.folder, env=self.environment(), **(pipes | streams))

    def command(self, verb, *arguments, url=None):
        """Return the words of a command line on this backend."""
        return [*MQPLUG, verb, url or self.url, *arguments]

    def environment(self, **more):
        """Return the variables of a process: those of this one, without colours."""
        return {**os.environ, **ENVIRONMENT, "XDG_CONFIG_HOME": str(self.folder), **more}

    def connect(self):
        """Connect a client in this process."""
        return mqplug.connect(self.url)

    def new_name(self):
        """Return a unique name for a topic or group."""
        return f"cli-{os.getpid()}-{next(_numbers)}"
