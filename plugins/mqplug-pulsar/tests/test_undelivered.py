"""Stored messages of other programs that pulsar-client never delivers."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from contextlib import contextmanager

import pulsar
import pytest
from pulsar_driver import fill

import mqplug
from mqplug import EARLIEST, LATEST


@contextmanager
def foreign_producer(server, topic, **options):
    """Yield a producer of pulsar-client that sends each message without a batch."""
    silent = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
    client = pulsar.Client(server.service_url, logger=silent)
    try:
        yield client.create_producer(f"persistent://public/default/{topic}-partition-0", **options)
    finally:
        client.close()


def test_reading_ends_behind_messages_that_the_client_drops(mq, topic, pulsar_server, caplog):
    """A read ends although pulsar-client drops its last messages, and the gap is counted and logged."""
    ids = fill(mq, topic, 2)
    with foreign_producer(pulsar_server, topic, compression_type=pulsar.CompressionType.ZLib) as out:
        for value in (b"", None):
            out.send(value)
    with caplog.at_level(logging.WARNING, "mqplug"):
        reader = mq.consumer(topic, start=EARLIEST, until=LATEST)
        assert [message.id for message in reader] == ids
        assert reader.statistics().gaps == 1
        reader.close()
    assert "drops the message" in caplog.text
    assert [message.id for message in mq.read(topic)] == ids


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a key with")
def test_reading_names_messages_that_are_encrypted(mq, topic, pulsar_server, tmp_path):
    """A message that another program encrypted raises an error that says so, instead of blocking the read."""
    private, public = str(tmp_path / "private.pem"), str(tmp_path / "public.pem")
    subprocess.run(["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    keys = pulsar.CryptoKeyReader(public, private)
    with foreign_producer(pulsar_server, topic, encryption_key="k", crypto_key_reader=keys) as out:
        out.send(b"secret")
    with pytest.raises(mqplug.Error, match="is encrypted end to end"):
        list(mq.read(topic, timeout=20))
