"""Runs handed to an unconnected producer, and the box for their reports."""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time

import _pulsar
import pytest
from compiled_parts import compiled_part

_native = compiled_part("mqplug_pulsar_native")

NOT_INITIALIZED = int(_pulsar.Result.ProducerNotInitialized)
NEVER_S = 60


def never(given):
    """Fail: the compiled part must not call this function."""
    raise AssertionError(given)


def new_box(key_to_text=never, headers_to_properties=never):
    """Return a box whose functions must not be called, unless others are given."""
    return _native.ReportBox(key_to_text, headers_to_properties)


def send(box, values, keys=None, headers=None, times=None, number=7):
    """Hand a run to an unconnected producer, which reports at once."""
    return box.send(_pulsar.Producer(), number, len(values), values, keys, headers, times)


def arrived(box, timeout=0):
    """Wait for the box and return its contents."""
    found = []
    box.wait(timeout, found)
    return found


def test_a_run_is_reported_once_and_row_by_row():
    """The box returns the number and the report of a finished run once; each row has the library's result."""
    box = new_box()
    mine = send(box, [b"a", None, b""], number=2**62)
    ((number, report),) = arrived(box)
    assert arrived(box) == []
    assert number == 2**62
    assert mine.is_complete()
    assert report.is_complete()
    assert mine.read() == report.read() == ([], [(row, NOT_INITIALIZED) for row in range(3)])


def test_runs_arrive_in_order():
    """Runs arrive in the order in which they finished."""
    box = new_box()
    for number in range(100):
        send(box, [b"x"] * (number % 3 + 1), number=number)
    assert [number for number, _ in arrived(box)] == list(range(100))


def test_reports_outlive_the_box():
    """A report can be read after its box was freed, even with a finished run in the box."""
    box = new_box()
    report = send(box, [b"x"])
    send(box, [b"y"])
    del box
    gc.collect()
    assert report.read() == ([], [(0, NOT_INITIALIZED)])


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ((["text"], None, None, None), TypeError),
        (([b"x"], ["text"], None, None), TypeError),
        (([b"x"], None, [()], ["soon"]), TypeError),
        (([b"x"], None, None, [-1]), ValueError),
        (([b"x"], None, None, [0]), ValueError),
        (([b"x"], None, None, [2**63]), OverflowError),
        (([b"x"], [b"k", b"l"], None, None), ValueError),
        (([b"x"], None, [], None), ValueError),
        (([b"x"], None, [(("\ud800", b"v"),)], None), UnicodeEncodeError),
        ((7, None, None, None), TypeError),
    ],
)
def test_an_odd_column_is_refused_before_anything_is_sent(columns, error):
    """A run that cannot be sent unchanged is refused as a whole, and nothing is reported."""
    box = new_box()
    with pytest.raises(error):
        box.send(_pulsar.Producer(), 1, 1, *columns)
    assert arrived(box) == []


def test_no_run_is_empty():
    """A run without messages raises ``ValueError``, because it would never be reported."""
    with pytest.raises(ValueError, match="at least one message, not 0"):
        send(new_box(), [])


def test_only_producers_send():
    """An object of pulsar-client that is not a producer raises ``TypeError``."""
    with pytest.raises(TypeError, match="not an object of the type"):
        new_box().send(_pulsar.MessageBuilder(), 1, 1, [b"x"], None, None, None)


def test_an_error_of_the_given_functions_is_raised():
    """An error of ``key_to_text`` or ``headers_to_properties`` is raised before anything is sent."""
    box = new_box()
    with pytest.raises(AssertionError):
        send(box, [b"x"], keys=[b"\xff"])
    with pytest.raises(AssertionError):
        send(box, [b"x"], headers=[(("h", None),)])
    assert arrived(box) == []


def is_plain(key):
    """Return whether a key is its own text."""
    try:
        return bool(key.decode()) and not key.startswith(b"mqplug")
    except UnicodeDecodeError:
        return False


def odd_keys():
    """Return keys around the borders of UTF-8, and random ones."""
    chance = random.Random(17)
    borders = ["", "\0", "k", "mqplug", "mqplug:base64:", "mqplu", "\x7f", "\x80", "߿", "ࠀ", "\ud7ff", "\ue000", "￿"]
    keys = [text.encode() for text in [*borders, "\U00010000", "\U0010ffff", "seven b\xe9", "eight by\u20ac..."]]
    keys += [
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5",
    ]
    keys += [key[:end] for key in keys for end in range(len(key))]
    keys += [
        bytes(chance.choices([0x41, 0x80, 0xBF, 0xC3, 0xE2, 0xED, 0xF0, 0xF4], k=chance.randrange(12)))
        for _ in range(3000)
    ]
    return keys + [b"12345678" + key + b"12345678" for key in keys]


def test_text_is_what_python_takes_for_text():
    """``key_to_text`` is called for exactly the keys that are not UTF-8, are empty, or begin with ``mqplug``."""
    asked = []
    keys = odd_keys()
    send(new_box(lambda key: asked.append(key) or "text"), [b"x"] * len(keys), keys=keys)
    assert asked == [key for key in keys if not is_plain(key)]


@pytest.mark.parametrize(
    ("headers", "plain"),
    [
        ((), True),
        ((("a", b"1"),), True),
        ((("a", b""), ("b", b"2"), ("\xe9", b"3"), ("\U00010000", b"4")), True),
        ((("", b"1"),), False),
        ((("b", b"1"), ("a", b"2")), False),
        ((("a", b"1"), ("a", b"2")), False),
        ((("ab", b"1"), ("a", b"2")), False),
        ((("a", None),), False),
        ((("a", b"\xff"),), False),
        ((("mqplug.epoch", b""),), False),
    ],
)
def test_headers_that_properties_cannot_tell(headers, plain):
    """``headers_to_properties`` is called unless headers are text with sorted, distinct, ordinary names."""
    asked = []
    send(new_box(headers_to_properties=lambda each: asked.append(each) or {"n": "v"}), [b"x"], headers=[headers])
    assert asked == ([] if plain else [headers])


def test_arrow_columns():
    """Arrow arrays are read in place: slices, nulls, and both kinds of binary."""
    pa = pytest.importorskip("pyarrow")
    asked = []
    box = new_box(lambda key: asked.append(key) or "text")
    keys = pa.array([b"left out", b"\xff", None, b"plain", b"\xfe"], pa.large_binary()).slice(1)
    values = pa.array([None, b"v", b"", b"w", None]).slice(1)
    times = pa.array([1, 2, None, 4, 5], pa.timestamp("ms", "UTC")).slice(1)
    report = send(box, values, keys, None, times)
    assert asked == [b"\xff", b"\xfe"]
    assert len(report.read()[1]) == 4


@pytest.mark.parametrize("kind", ["string", "int64", "list"])
def test_other_arrow_columns_are_refused(kind):
    """An array of another type raises ``TypeError``, and so do headers in an array."""
    pa = pytest.importorskip("pyarrow")
    types = {"string": pa.string(), "int64": pa.int64(), "list": pa.list_(pa.binary())}
    array = pa.nulls(1, types[kind])
    with pytest.raises(TypeError, match="of the format"):
        send(new_box(), array)
    with pytest.raises(TypeError, match="of the format"):
        send(new_box(), [b"x"], None, pa.array([b"headers"]))


def test_waiting_ends_in_time():
    """Without a report ``wait`` returns at its timeout, and other Python threads run until then."""
    box, counted = new_box(), []
    counting = threading.Thread(target=lambda: [counted.append(time.sleep(0.01)) for _ in range(10)])
    counting.start()
    began = time.monotonic()
    assert arrived(box, 0.3) == []
    assert 0.25 < time.monotonic() - began < NEVER_S
    counting.join()
    assert len(counted) == 10


def test_a_bell_ends_the_waiting():
    """``ring`` ends a running call of ``wait``."""
    box = new_box()
    threading.Timer(0.1, box.ring).start()
    began = time.monotonic()
    arrived(box, NEVER_S)
    assert time.monotonic() - began < NEVER_S / 2


def test_a_report_ends_the_waiting():
    """A finished run makes ``wait`` return."""
    box = new_box()
    threading.Timer(0.1, send, [box, [b"x"]]).start()
    began, found = time.monotonic(), []
    while not found:
        found = arrived(box, NEVER_S)
    assert time.monotonic() - began < NEVER_S / 2


def test_an_interrupt_ends_the_waiting():
    """Ctrl-C ends ``wait`` long before its timeout."""
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    box = new_box()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        arrived(box, NEVER_S)
    assert time.monotonic() - began < NEVER_S / 2


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_process_can_let_go_of_a_box():
    """A forked child can free the boxes and reports that it inherited."""
    gc.freeze()  # the child must not free objects of other tests, such as clients
    box = new_box()
    report = send(box, [b"x"])
    child = os.fork()
    if child == 0:
        del box, report
        gc.collect()
        os._exit(0)
    gc.unfreeze()
    assert os.waitpid(child, 0)[1] == 0
    assert len(arrived(box)) == 1
