"""When the compiled part is used, and what notes and warnings say about it. No broker is needed."""

from __future__ import annotations

import logging
import sys
from types import ModuleType

import confluent_kafka
import pytest

from mqplug import ConfigError
from mqplug_kafka import KafkaSettings
from mqplug_kafka._cluster import compiled_part
from mqplug_kafka._cluster.compiled_part import compiled_use

pytestmark = pytest.mark.python

LIBRARY = f"librdkafka {confluent_kafka.libversion()[0]}"


def settings(native="auto", **options):
    """Return settings for a broker that is never contacted."""
    return KafkaSettings(servers=["127.0.0.1:1"], native=native, librdkafka=options)


@pytest.fixture(autouse=True)
def part(monkeypatch):
    """A complete compiled part, in a process that has not checked it yet."""
    made = ModuleType("mqplug_kafka_native")
    made.Reader = made.Sender = object
    made.library_version = lambda: confluent_kafka.libversion()[0]
    for needed in compiled_part.NEEDED.values():
        setattr(made, needed, object)
    monkeypatch.setitem(sys.modules, "mqplug_kafka_native", made)
    monkeypatch.setattr("mqplug.spi.compiled.version", lambda name: "0.1.0")
    monkeypatch.setattr(compiled_part, "PART", compiled_part.new_part())
    return made


def test_what_fits_reads_and_sends():
    """A matching compiled part reads and sends, and one note names its version and librdkafka's."""
    made = compiled_use(settings())
    assert made.usable("reads")
    assert made.usable("sends")
    (note,) = made.notes(LIBRARY)
    assert (
        note == f"reads and sends through mqplug-kafka-native 0.1.0 over librdkafka {confluent_kafka.libversion()[0]}"
    )


def test_off_is_the_plain_path(caplog):
    """With native="off" confluent-kafka reads and sends; the note gives the reason, and nothing is logged."""
    made = compiled_use(settings("off"))
    assert not made.usable("reads")
    assert made.notes(LIBRARY) == ["reads and sends through confluent-kafka: native is 'off'"]
    assert not caplog.records


def test_not_installed_is_the_plain_path(monkeypatch, caplog):
    """Without mqplug-kafka-native confluent-kafka reads and sends; the note gives the reason, and nothing is logged."""
    monkeypatch.setitem(sys.modules, "mqplug_kafka_native", None)  # import raises ModuleNotFoundError
    made = compiled_use(settings())
    assert not made.usable("sends")
    assert made.notes(LIBRARY) == ["reads and sends through confluent-kafka: mqplug-kafka-native is not installed"]
    assert not caplog.records


def test_another_library_is_refused(part, caplog):
    """A compiled part that found another librdkafka than the client's is refused, with one warning per process."""
    part.library_version = lambda: "2.0.0"
    with caplog.at_level(logging.WARNING, "mqplug.kafka"):
        notes = [compiled_use(settings()).notes(LIBRARY) for _ in range(3)]
    assert "found librdkafka 2.0.0" in notes[0][0]
    assert len(caplog.records) == 1


def test_another_major_version_is_refused(part, monkeypatch):
    """A new major version of librdkafka is refused, because its structures may differ."""
    part.library_version = lambda: "3.0.0"
    monkeypatch.setattr(confluent_kafka, "libversion", lambda: ("3.0.0", 0))
    assert "supports librdkafka 2, not 3.0.0" in compiled_use(settings()).notes(LIBRARY)[0]


def test_a_missing_function_is_named(monkeypatch):
    """If importing the compiled part fails, the note contains the error, which names the missing function."""

    class Failing:
        def find_spec(self, name, *_):
            if name == "mqplug_kafka_native":
                raise ImportError("cimpl.so lacks the function rd_kafka_new")

    monkeypatch.delitem(sys.modules, "mqplug_kafka_native")
    monkeypatch.setattr(sys, "meta_path", [Failing(), *sys.meta_path])
    assert "lacks the function rd_kafka_new" in compiled_use(settings()).notes(LIBRARY)[0]


def test_options_that_only_the_client_understands():
    """An option that only confluent-kafka understands disables the compiled part on this connection only."""
    made = compiled_use(settings(**{"plugin.library.paths": "x"}))
    assert not made.usable("reads")
    assert "librdkafka has 'plugin.library.paths'" in made.notes(LIBRARY)[0]
    assert compiled_use(settings()).usable("reads")


def test_reading_and_sending_are_apart(caplog):
    """Refusing the compiled part for reading leaves it in use for sending."""
    made = compiled_use(settings())
    with caplog.at_level(logging.WARNING, "mqplug.kafka"):
        made.refuse("reads", "it read something else")
        compiled_use(settings()).refuse("reads", "it read something else again")
    assert not made.usable("reads")
    assert made.usable("sends")
    reads, sends = made.notes(LIBRARY)
    assert reads == "reads through confluent-kafka: it read something else"
    assert sends.startswith("sends through mqplug-kafka-native")


@pytest.mark.parametrize("missing", ["part", "reader", "option"])
def test_required_is_an_error_where_it_cannot_be_used(part, monkeypatch, missing):
    """With native="required" an unusable compiled part raises ConfigError with the reason and the fix."""
    options = {}
    if missing == "part":
        monkeypatch.setitem(sys.modules, "mqplug_kafka_native", None)
    elif missing == "reader":
        del part.Reader
    else:
        options = {"plugin.library.paths": "x"}
    with pytest.raises(ConfigError, match="native is 'required', but confluent-kafka reads") as caught:
        compiled_use(settings("required", **options))
    assert "mqplug-kafka[native]" in caught.value.fix


def test_required_is_an_error_once_it_was_refuted():
    """With native="required" the refusal of the compiled part raises ConfigError, and so does each later use."""
    made = compiled_use(settings("required"))
    with pytest.raises(ConfigError, match="something else"):
        made.refuse("reads", "something else")
    with pytest.raises(ConfigError, match="something else"):
        made.usable("reads")
