"""The verbs as processes, over RocksMQ, a real Kafka and a real Pulsar: one of each for a whole run.

Tests of the verbs over memory are in `tests/cli`.
"""

from __future__ import annotations

from importlib.util import find_spec
from zlib import crc32

import pytest
from cli_processes import Cluster

import mqplug

BACKENDS = ["rocksmq", "kafka", "pulsar"]

if find_spec("mqplug_devbrokers") is None:  # the core's own tests know no plugin
    collect_ignore_glob = ["test_*.py"]


def pytest_generate_tests(metafunc):
    """Run each test over the backend that its name chooses by day, and over all at night."""
    chosen = [mark for mark in metafunc.definition.iter_markers("parametrize") if mark.args[0] == "cluster"]
    if "cluster" in metafunc.fixturenames and not chosen:
        by_day = BACKENDS[crc32(metafunc.function.__name__.encode()) % len(BACKENDS)]
        marks = {each: () if each == by_day else pytest.mark.night for each in BACKENDS}
        parameters = [pytest.param(each, marks=mark) for each, mark in marks.items()]
        metafunc.parametrize("cluster", parameters, indirect=True, scope="session")


@pytest.fixture(scope="session")
def cluster(request, tmp_path_factory):
    """A backend. Each process opens RocksMQ anew, or through the process that has it open."""
    folder = tmp_path_factory.mktemp("cli")
    if request.param == "rocksmq":
        url = f"rocksmq://{folder}/store"
        with mqplug.connect(url, create=True):
            pass
        return Cluster(request.param, url, folder)
    server = request.getfixturevalue(f"shared_{request.param}")
    return Cluster(request.param, server.url, folder, server)


@pytest.fixture
def topic(cluster):
    """A topic of two partitions with three messages in each, deleted afterwards."""
    name = cluster.new_name()
    with cluster.connect() as mq:
        mq.create_topic(name, partitions=2)
        with mq.producer(name) as out:
            for n in range(6):  # one by one: Pulsar estimates by batches
                out.send(b"%d" % n, key=b"k%d" % n, partition=n % 2)
    yield name
    with cluster.connect() as mq:
        if name in mq.topics():
            mq.delete_topic(name)


@pytest.fixture
def group(cluster, topic):
    """A group that has acked the first of the three messages of each partition."""
    name = cluster.new_name()
    with cluster.connect() as mq, mq.consumer(topic, group=name) as consumer:
        for message in (consumer.receive(30) for _ in range(6)):
            if message.value in {b"0", b"1"}:
                consumer.ack(message)
        consumer.commit()
    return name
