"""The verbs as processes, over RocksMQ, a real Kafka and a real Pulsar: one of each for a whole run.

Tests of the verbs over memory are in `tests/cli`.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

import mqplug

BACKENDS = ["rocksmq", "kafka", "pulsar"]
MQPLUG = [sys.executable, "-m", "mqplug.cli"]
ENVIRONMENT = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
PATIENCE_S = 60

if find_spec("mqplug_devbrokers") is None:  # the core's own tests know no plugin
    collect_ignore_glob = ["test_*.py"]

_numbers = itertools.count()


class Cluster:
    """One backend, and the command line on it."""

    def __init__(self, backend, url, folder):
        self.backend = backend
        self.url = url
        self.folder = folder

    def __repr__(self):
        return self.backend

    def run(self, verb, *arguments, given="", **environment):
        """The finished process of a verb on this backend, with what it printed."""
        return subprocess.run(
            [*MQPLUG, verb, self.url, *arguments],
            input=given, capture_output=True, text=isinstance(given, str), check=False, timeout=PATIENCE_S,
            cwd=self.folder, env=self.environment(**environment),
        )  # fmt: skip

    def start(self, verb, *arguments, **streams):
        """A process of a verb on this backend. Its output is a pipe, as far as ``streams`` say nothing else."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*MQPLUG, verb, self.url, *arguments], cwd=self.folder, env=self.environment(), **(pipes | streams)
        )

    def environment(self, **more):
        """The variables of a process: those of this one, without colours."""
        return {**os.environ, **ENVIRONMENT, "XDG_CONFIG_HOME": str(self.folder), **more}

    def connect(self):
        """A client of this process."""
        return mqplug.connect(self.url)

    def new_name(self):
        """A name of a topic or group that no other test has."""
        return f"cli-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(scope="session", params=BACKENDS)
def cluster(request, tmp_path_factory):
    """Each backend in turn. RocksMQ is opened by each process anew, or by way of the one that has it open."""
    folder = tmp_path_factory.mktemp("cli")
    if request.param == "rocksmq":
        url = f"rocksmq://{folder}/store"
        with mqplug.connect(url, create=True):
            pass
    else:
        url = request.getfixturevalue(f"{request.param}_server").url
    return Cluster(request.param, url, folder)


@pytest.fixture
def topic(cluster):
    """A topic of two partitions with three messages in each, deleted afterwards."""
    name = cluster.new_name()
    with cluster.connect() as mq:
        mq.create_topic(name, partitions=2)
        with mq.producer(name) as out:
            out.send_many([mqplug.Record(b"%d" % n, key=b"k%d" % n, partition=n % 2) for n in range(6)])
    yield name
    with cluster.connect() as mq:
        if name in mq.topics():
            mq.delete_topic(name)
