"""The errors: one vocabulary, picklable, with a place and advice."""

from __future__ import annotations

import inspect
import pickle

import pytest

import mqplug

pytestmark = pytest.mark.python

ERRORS = sorted(
    (kind for _, kind in inspect.getmembers(mqplug, inspect.isclass) if issubclass(kind, mqplug.Error)),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_survive_pickling(kind: type[mqplug.Error]) -> None:
    """A pickled error has the same text, place and advice."""
    error = kind("broken", backend="memory", topic="orders", operation="send", fix="Mend it")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    assert (copy.backend, copy.topic, copy.operation, copy.fix) == ("memory", "orders", "send", "Mend it")


@pytest.mark.parametrize("kind", [kind for kind in ERRORS if kind is not mqplug.Error])
def test_each_kind_of_error_has_advice(kind: type[mqplug.Error]) -> None:
    """An error that is raised without advice still has the advice of its kind."""
    assert kind("broken").fix
    assert str(kind("broken")).endswith(f". {kind.fix}")


def test_an_error_says_where_and_how_to_mend_it() -> None:
    """The text of an error has what happened, where, and how to fix it."""
    error = mqplug.TopicNotFound("there is no topic 'orders'", fix="Create it").at(
        backend="memory", topic="orders", operation="open"
    )
    text = "there is no topic 'orders' (backend 'memory', topic 'orders', operation 'open'). Create it"
    assert str(error) == text


def test_a_place_that_is_known_below_is_kept() -> None:
    """Context from a caller fills only gaps."""
    error = mqplug.Error("x", topic="mine").at(backend="memory", topic="other")
    assert (error.backend, error.topic) == ("memory", "mine")


def test_timeouts_are_pythons_timeouts() -> None:
    """Timeout and SendTimeout can be caught as TimeoutError; a timed-out send also as OutcomeUnknown."""
    assert issubclass(mqplug.Timeout, TimeoutError)
    assert issubclass(mqplug.SendTimeout, TimeoutError)
    assert issubclass(mqplug.SendTimeout, mqplug.OutcomeUnknown)


def test_a_lost_position_keeps_its_low_when_pickled() -> None:
    """The low of a PositionLost survives pickling."""
    log = mqplug.Log("memory", "c", "orders", 0, "i")
    low = mqplug.Position(log, (7,))
    copy = pickle.loads(pickle.dumps(mqplug.PositionLost("gone", log=log, low=low)))
    assert copy.low == low
    assert copy.log is log
