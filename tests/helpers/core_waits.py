"""Waits and limits of the core that no setting changes, for tests that would otherwise wait for them."""

from __future__ import annotations

import pytest

from mqplug._consume import consumer_session, topic_following
from mqplug._produce import producer_session, pump, queue

_WAITS = {
    "commit in the background": (consumer_session, "COMMIT_INTERVAL_S"),
    "look for topics of a pattern": (topic_following, "LOOK_EVERY_S"),
    "look for partitions in a transaction": (producer_session, "PARTITIONS_REFRESH_S"),
    "wait for a driver": (pump, "PUMP_SLICE_S"),
    "records of a run": (queue, "COLLECTED_MESSAGES"),
    "bytes of a run": (queue, "COLLECTED_BYTES"),
}


def set_core_wait(monkeypatch: pytest.MonkeyPatch, wait: str, amount: float) -> None:
    """Make a wait last this many seconds, or set a limit."""
    place, name = _WAITS[wait]
    monkeypatch.setattr(place, name, amount)
