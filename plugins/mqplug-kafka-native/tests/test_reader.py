"""Readers without a broker: options, callbacks, and endings without hangs or crashes."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from contextlib import suppress

import pytest
from compiled_parts import compiled_part
from confluent_kafka import KafkaError, KafkaException

compiled_part("mqplug_kafka_native")

from mqplug_kafka_native import Reader, Run  # noqa: E402

OPTIONS = {"bootstrap.servers": "127.0.0.1:1", "group.id": "unused", "log_level": 0}


@pytest.fixture
def reader():
    """A reader of a partition whose broker does not answer."""
    made = Reader(OPTIONS, 1 << 20)
    made.assign([("topic", 0, 0)])
    yield made
    made.close()


def test_a_refused_option_is_an_error_of_the_client():
    """An option that librdkafka refuses raises KafkaException with librdkafka's own message."""
    with pytest.raises(KafkaException, match="No such configuration property") as caught:
        Reader({"no.such.option": "1"}, 1)
    assert caught.value.args[0].code() == KafkaError._INVALID_ARG


def test_options_must_have_names():
    """An option name that is not a str raises TypeError."""
    with pytest.raises(TypeError):
        Reader({1: "x"}, 1)


def test_an_idle_poll_lasts_as_long_as_it_may(reader):
    """An idle poll returns two empty lists at its timeout, even if the timeout spans several slices."""
    for timeout in (0, 0.25):
        began = time.monotonic()
        assert reader.poll(10, timeout) == ([], [])
        assert timeout <= time.monotonic() - began < timeout + 5


def test_errors_of_the_connection_are_told():
    """Connection errors reach ``error_cb`` as KafkaError during a poll, and librdkafka's lines reach ``logger``."""
    errors, lines = [], []

    class Logger:
        def log(self, level, text, *parts):
            lines.append((level, text % parts))

    reader = Reader(OPTIONS | {"error_cb": errors.append, "logger": Logger(), "log_level": 7, "debug": "broker"}, 1)
    end = time.monotonic() + 30
    while not (errors and lines) and time.monotonic() < end:
        reader.poll(1, 0.1)
    reader.close()
    assert {type(error) for error in errors} == {KafkaError}
    assert {level for level, _ in lines} <= {10, 20, 30, 40}


def test_an_error_of_a_callback_is_raised_by_poll():
    """An exception in ``error_cb`` is raised by poll."""

    def failing(error):
        raise ValueError("told")

    reader = Reader(OPTIONS | {"error_cb": failing}, 1)
    with pytest.raises(ValueError, match="told"):
        reader.poll(1, 30)


def test_a_closed_reader_says_so(reader):
    """Each method of a closed reader raises RuntimeError, and a second close does nothing."""
    reader.close()
    reader.close()
    for call in (lambda: reader.poll(1, 0), lambda: reader.assign([]), lambda: reader.pause([])):
        with pytest.raises(RuntimeError, match="closed"):
            call()


def test_a_close_ends_a_poll_of_another_thread(reader):
    """Closing a reader ends another thread's poll of a minute."""

    def poll():
        with suppress(RuntimeError):  # a busy machine came here only after the close
            reader.poll(1, 60)

    polling = threading.Thread(target=poll)
    polling.start()
    time.sleep(0.2)
    reader.close()
    polling.join(30)
    assert not polling.is_alive()


def test_many_threads_may_poll_and_close(reader):
    """If a reader is closed while eight threads poll it, each poll returns or raises RuntimeError."""

    def poll():
        try:
            while True:
                reader.poll(5, 0.01)
        except RuntimeError:
            pass

    threads = [threading.Thread(target=poll) for _ in range(8)]
    for each in threads:
        each.start()
    time.sleep(0.2)
    reader.close()
    for each in threads:
        each.join(10)
    assert not any(each.is_alive() for each in threads)


def test_assigning_twice_is_an_error_of_the_client(reader):
    """Assigning a partition twice raises KafkaException, and the reader continues to work."""
    with pytest.raises(KafkaException, match="already part of the current assignment"):
        reader.assign([("topic", 0, 5)])
    reader.pause([("topic", 0, 0)])
    reader.resume([("topic", 0, 0)])
    reader.unassign([("topic", 0, 0)])
    assert reader.poll(1, 0) == ([], [])


@pytest.mark.parametrize("wrong", [3, [("topic",)], [("topic", "0", 0)], [(None, 0, 0)], [("topic", 0, 2**63)]])
def test_partitions_of_a_wrong_form_are_refused(reader, wrong):
    """Partitions of a wrong type or range raise TypeError or OverflowError."""
    with pytest.raises((TypeError, OverflowError)):
        reader.assign(wrong)


def test_a_reader_that_is_forgotten_ends(reader):
    """Garbage collection frees a reader that is in a reference cycle with its callback."""

    class Owner:
        def told(self, error):
            pass

    owner = Owner()
    owner.reader = Reader(OPTIONS | {"error_cb": owner.told}, 1)
    forgotten = weakref.ref(owner)
    del owner
    gc.collect()
    assert forgotten() is None


def test_a_child_process_leaves_it_alone(reader):
    """After a fork, methods raise in the child, which can close and exit; the parent's reader still works."""
    child = os.fork()
    if child == 0:
        try:
            reader.poll(1, 0)
        except RuntimeError as error:
            reader.close()
            os._exit(7 if "before the fork" in str(error) else 1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(_waited(child)) == 7
    assert reader.poll(1, 0) == ([], [])


def _waited(child):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.01)
    os.kill(child, 9)
    return os.waitpid(child, 0)[1]


def test_a_token_is_fetched_before_the_first_connection():
    """Creating a reader calls ``oauth_cb``, and raises its exception or an error about its result."""
    told = []

    def provider(config):
        told.append(config)
        return "token", time.time() + 60, "user", {"extension": "value"}

    options = OPTIONS | {"security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER"}
    Reader(options | {"oauth_cb": provider}, 1).close()
    assert told

    def failing(config):
        raise LookupError("no token today")

    with pytest.raises(LookupError, match="no token today"):
        Reader(options | {"oauth_cb": failing}, 1)
    with pytest.raises(ValueError, match="extension"):
        Reader(options | {"oauth_cb": lambda config: ("token", time.time() + 60, "", {"auth": "x"})}, 1)
    with pytest.raises(TypeError):
        Reader(options | {"oauth_cb": lambda config: ("token", time.time() + 60, "", {"a": 1})}, 1)


def test_runs_are_made_by_readers_alone():
    """Creating a run directly raises TypeError."""
    with pytest.raises(TypeError):
        Run()
