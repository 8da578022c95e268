"""Looking up offsets while a broker comes back: no answer is taken for a position that no log has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mqplug import Log, Timeout
from mqplug_kafka._admin.log_offsets import LOG_END, LOG_START, look_up

ORDERS = Log("kafka", "cluster", "orders", 0)


class ReturningBroker:
    """A connection whose broker answers each question with the next of these offsets, the last one for ever."""

    def __init__(self, *offsets: int) -> None:
        self._offsets = list(offsets)
        self.admin = self.requests = self

    def list_offsets(self, wanted: Any, **_: Any) -> Any:
        offset = self._offsets.pop(0) if len(self._offsets) > 1 else self._offsets[0]
        return dict.fromkeys(wanted, SimpleNamespace(offset=offset))

    def wait(self, _: str, answer: Any, timeout: float) -> Any:
        return answer


@pytest.mark.parametrize("spec", [LOG_START, LOG_END], ids=["start", "end"])
def test_a_negative_offset_is_asked_for_again(spec: Any) -> None:
    """A broker that has just restarted may answer -1: the end of a log is asked for until it is one."""
    broker: Any = ReturningBroker(-1, -1, 7)
    assert look_up(broker, [ORDERS], spec)(5) == {ORDERS: 7}


def test_negative_for_ever() -> None:
    """A broker that goes on answering -1 is a timeout."""
    broker: Any = ReturningBroker(-1)
    with pytest.raises(Timeout, match="do not all have a leader"):
        look_up(broker, [ORDERS], LOG_END)(0.1)
