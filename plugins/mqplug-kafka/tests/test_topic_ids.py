"""Brokers without topic ids: everything else works, and warnings name what is missing."""

from __future__ import annotations

import asyncio
import json
import re
import struct
import subprocess
import sys
import threading

import attrs
import pytest
from confluent_kafka import Uuid
from kafka_driver import fill, new_name, take

import mqplug
from mqplug_kafka._cluster.topic_metadata import incarnation, is_other

METADATA_KEY = 3
LAST_WITHOUT_IDS = 9


@attrs.frozen
class Described:
    """The part of librdkafka's topic description that is used here."""

    topic_id: Uuid


class OldFace:
    """A relay that makes a broker look older: its metadata have no topic ids."""

    def __init__(self, port, target):
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._tasks = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._carry, "127.0.0.1", port))

    def _run(self, step):
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(20)

    def close(self):
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    async def _end(self):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry(self, client_reader, client_writer):
        self._tasks.add(asyncio.current_task())
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(client_reader, server_writer))
                both.create_task(_age(server_reader, client_writer))
        except* OSError:
            pass
        finally:
            client_writer.close()
            server_writer.close()


async def _copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _age(reader, writer):
    """Lower the metadata version in a connection's first answer, which lists the versions of each request."""
    try:
        size = await reader.readexactly(4)
        answer = await reader.readexactly(struct.unpack(">i", size)[0])
    except asyncio.IncompleteReadError:
        return
    metadata = struct.pack(">hh", METADATA_KEY, 0)
    found = re.search(re.escape(metadata) + b"\0[\x0a-\x20]", answer)
    assert found
    answer = answer[: found.end() - 1] + bytes([LAST_WITHOUT_IDS]) + answer[found.end() :]
    writer.write(size + answer)
    await _copy(reader, writer)


@pytest.fixture(scope="module")
def old_url(disturbed_kafka):
    """The URL of a real broker, relayed so that it has no topic ids."""
    face = OldFace(disturbed_kafka.front, disturbed_kafka.behind)
    yield f"kafka://127.0.0.1:{disturbed_kafka.front}"
    face.close()


def test_no_id_is_an_empty_incarnation():
    """A topic id of zero is an empty incarnation, which never differs from another; other ids differ."""
    assert incarnation(Described(Uuid(0, 0))) == ""
    assert incarnation(Described(Uuid(0, 1))) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert not is_other("", "")
    assert not is_other("", "x")
    assert not is_other("x", "")
    assert not is_other("x", "x")
    assert is_other("x", "y")


def test_without_topic_ids_all_goes_on(old_url, caplog):
    """Without topic ids messages are sent, read, acked, found by id and trimmed, with one warning in the log."""
    with mqplug.connect(old_url) as mq:
        topic, group = new_name(), new_name()
        mq.create_topic(topic)
        sent = fill(mq, topic, 5)
        assert sent[0].log.incarnation == ""
        with mq.consumer(topic, group=group) as consumer:
            taken = take(consumer, 3)
            assert [each.id for each in taken] == sent[:3]
            for each in taken:
                consumer.ack(each)
            consumer.commit()
            consumer.seek(mqplug.MessageId.parse(str(sent[1])))
            assert take(consumer, 1)[0].id == sent[1]
            consumer.ack(consumer.receive(timeout=30))
        assert mq.lag(topic, group=group) == {0: 4}
        mq.trim(topic, {0: mq.watermarks(topic)[0].high})
        assert mq.watermarks(topic)[0].low == mq.watermarks(topic)[0].high
    assert len([each for each in caplog.records if "no topic ids" in each.getMessage()]) == 1


def test_doctor_names_a_broker_without_topic_ids(old_url, disturbed_kafka):
    """``doctor`` warns about a broker without topic ids, and not about one that has them."""
    for url in (old_url, disturbed_kafka.url):
        with mqplug.connect(url) as mq:
            mq.create_topic(new_name())
        command = [sys.executable, "-m", "mqplug_cli", "doctor", url, "--json"]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        assert found["connects"]
        warned = [each for each in found["warnings"] if "the broker reports no topic ids" in each]
        assert len(warned) == (url == old_url)
