"""Use of the compiled part, and the notes and log lines about it, without a broker."""

from __future__ import annotations

import logging
import sys

import pulsar
import pytest
from compiled_parts import compiled_part

from mqplug import ConfigError
from mqplug_pulsar import PulsarSettings
from mqplug_pulsar._cluster import compiled_part as part

NAME = "mqplug-pulsar-native"
AUTO, OFF, REQUIRED = (PulsarSettings(native=native) for native in ("auto", "off", "required"))


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    """Begin without what this process has found out."""
    monkeypatch.setattr(part, "PART", part.new_part())


@pytest.fixture
def not_installed(monkeypatch):
    """Make the import of the compiled part fail as if it were not installed."""
    monkeypatch.setitem(sys.modules, "mqplug_pulsar_native", None)  # import raises ModuleNotFoundError


def test_off_is_the_plain_path():
    """With ``native = "off"`` the compiled part is not used, and a note says so."""
    assert part.find(OFF, "reads") is None
    assert part.notes(OFF) == ["reads and sends through pulsar-client: native is 'off'"]


def test_not_installed_is_no_log_line(not_installed, caplog):
    """Without the distribution pulsar-client reads and sends, and a note says so, with no log line."""
    assert part.find(AUTO, "reads") is None
    assert part.notes(AUTO)[0].endswith(": mqplug-pulsar-native is not installed")
    assert caplog.records == []


def test_required_names_what_to_install(not_installed):
    """With ``native = "required"`` a missing distribution is a ``ConfigError`` that says how to install it."""
    with pytest.raises(ConfigError, match="mqplug-pulsar-native is not installed") as caught:
        part.find(REQUIRED, "sends")
    assert "pip install 'mqplug-pulsar[native]'" in str(caught.value.fix)


def test_an_unknown_client_is_the_plain_path(monkeypatch, caplog):
    """With an untested release of pulsar-client the compiled part is not used, and one log line says so."""
    reason = "it is not tested with pulsar-client 4.0.0"
    monkeypatch.setattr(pulsar, "__version__", "4.0.0")
    with caplog.at_level(logging.WARNING, "mqplug.pulsar"):
        assert [part.find(AUTO, kind) for kind in ("reads", "sends", "reads")] == [None] * 3
    assert [record.getMessage() for record in caplog.records] == [
        f"pulsar-client reads and sends instead of {NAME}: {NAME} cannot be used: {reason}"
    ]


def test_a_library_that_does_not_fit_is_the_plain_path(monkeypatch, caplog):
    """An ImportError of the compiled part is logged once and noted, and the part is not used."""

    class Refusing:
        def find_spec(self, name, path=None, target=None):
            if name == "mqplug_pulsar_native":
                raise ImportError("libpulsar lacks the function pulsar_x")

    monkeypatch.delitem(sys.modules, "mqplug_pulsar_native", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    with caplog.at_level(logging.WARNING, "mqplug.pulsar"):
        assert part.notes(AUTO)[0].endswith(": libpulsar lacks the function pulsar_x")
    assert len(caplog.records) == 1


def test_reading_and_sending_are_given_up_apart(caplog):
    """When compiled reading is given up, one log line and a note say why, and compiled sending stays in use."""
    compiled_part("mqplug_pulsar_native")
    with caplog.at_level(logging.WARNING, "mqplug.pulsar"):
        part.refuse("reads", "its keys differ")
        part.refuse("reads", "its values differ")
    assert [record.getMessage() for record in caplog.records] == [
        "pulsar-client reads instead of mqplug-pulsar-native: its keys differ"
    ]
    assert part.find(AUTO, "reads") is None
    assert part.find(AUTO, "sends") is not None
    reads, sends = part.notes(AUTO)
    assert sends.startswith("sends through mqplug-pulsar-native 0.1.0 over pulsar-client 3.13")
    assert reads.endswith(": its keys differ")
    with pytest.raises(ConfigError, match="its keys differ"):
        part.find(REQUIRED, "reads")
