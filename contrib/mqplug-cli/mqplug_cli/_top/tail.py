"""The screen that follows a topic: its messages as they arrive, with search, pause, and one of them in full.

A thread reads the last messages first, then new ones.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import ClassVar, Final

import attrs
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

import mqplug
from mqplug_cli._error_text import error_line
from mqplug_cli._top.model import Model, Subject
from mqplug_cli._top.parts import ModelScreen, SearchField, StatusLine
from mqplug_cli._top.short_texts import one_line
from mqplug_cli._top.table import Column, Row, Table

KEPT_BYTES: Final = 16 * 1024  # of each value
TAIL_COLUMNS: Final = (
    Column("TIME"),
    Column("PARTITION", right=True),
    Column("POSITION", right=True, most=20),
    Column("KEY", most=20),
    Column("VALUE", wide=True),
)
_ROW_BYTES: Final = 300
_HEX_LINE: Final = 16
_PRINTABLE: Final = range(32, 127)


@attrs.frozen(eq=False)
class TailMessage:
    """A message as it is shown. Only the beginning of a large value is kept."""

    row: Row
    id: str
    time: str
    key: bytes | None
    value: bytes | None
    size: int
    headers: tuple[tuple[str, bytes | None], ...]

    def contains(self, text: str) -> bool:
        """Return whether key, value or headers contain a text, ignoring the case of A to Z."""
        wanted = text.encode().lower()
        named = (part for name, value in self.headers for part in (name.encode(), value))
        return any(wanted in part.lower() for part in (self.key, self.value, *named) if part is not None)


def tail_message(number: int, message: mqplug.Message) -> TailMessage:
    """Return a message as it is shown. The key of its row is its number."""
    key, value = message.key, message.value
    try:
        time = message.timestamp.astimezone().isoformat(sep=" ", timespec="milliseconds")
    except mqplug.InvalidTimestamp:
        time = "impossible"
    cells = (
        time.partition(" ")[2][:12], str(message.partition), ":".join(map(str, message.id.coordinates)),
        "" if key is None else one_line(key[:_ROW_BYTES]), one_line(None if value is None else value[:_ROW_BYTES]),
    )  # fmt: skip
    kept = None if value is None else value[:KEPT_BYTES]
    return TailMessage(Row(number, cells), str(message.id), time, key, kept, len(value or b""), tuple(message.headers))


def page(message: TailMessage) -> str:
    """Return a kept message as text."""
    _, partition, position, *_ = message.row.cells
    lines = [
        f"partition  {partition}",
        f"position   {position}",
        f"id         {message.id}",
        f"time       {message.time}",
        f"key        {'(none)' if message.key is None else one_line(message.key)}",
        *(f"header     {name}: {'(none)' if value is None else one_line(value)}" for name, value in message.headers),
        f"value      {'(tombstone)' if message.value is None else f'{message.size:,} bytes'}",
    ]
    if message.value:
        lines += ["", value_text(message.value)]
    if message.value is not None and len(message.value) < message.size:
        lines.append(f"… and {message.size - len(message.value):,} bytes more")
    return "\n".join(lines)


def value_text(value: bytes) -> str:
    """Return a value as text: JSON indented, other UTF-8 unchanged, and other bytes in hexadecimal."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return "\n".join(_hex_line(value, at) for at in range(0, len(value), _HEX_LINE))
    with suppress(ValueError):
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    return "\n".join(one_line(line.encode(errors="replace")) for line in text.splitlines())


def _hex_line(value: bytes, at: int) -> str:
    part = value[at : at + _HEX_LINE]
    shown = "".join(chr(byte) if byte in _PRINTABLE else "." for byte in part)
    return f"{at:06x}  {part.hex(' '):<47}  {shown}"


FIRST: Final = 50  # of each partition
KEPT: Final = 1000
MOST_PER_S: Final = 1000  # more are not read, to spare the backend: no reader can follow them
_BATCH: Final = 200
_POLL_S: Final = 0.5
_RETRY_S: Final = 1.0
_PREFETCH_BYTES: Final = 4 * 1024 * 1024


class TailReader:
    """The last messages of a topic. If they arrive faster than ``MOST_PER_S``, some are skipped, which is counted."""

    def __init__(self, client: mqplug.Client, topic: str, timeout: float) -> None:
        self.changes = 0
        self.skips = 0
        self.asked = False  # whether the messages that existed at the start were read
        self.failure: str | None = None
        self.defect: Exception | None = None
        self._client = client
        self._topic = topic
        self._timeout = timeout
        self._kept: deque[TailMessage] = deque(maxlen=KEPT)
        self._count = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mqplug-top-tail", daemon=True)

    def start(self) -> None:
        """Start reading."""
        self._thread.start()

    def end(self) -> None:
        """Stop reading soon, without waiting."""
        self._ended.set()

    def messages(self) -> Sequence[TailMessage]:
        """Return the kept messages, oldest first."""
        return tuple(self._kept.copy())

    def _run(self) -> None:
        start: mqplug.Start = mqplug.last(FIRST)
        while not self._ended.is_set():
            try:
                self._read(start)
            except mqplug.Closed:
                return
            except mqplug.Error as error:
                self.failure = error_line(error)
            except Exception as error:  # noqa: BLE001 - raised by the screen
                self.defect = error
                return
            self.changes += 1
            start = mqplug.LATEST
            self._ended.wait(_RETRY_S)

    def _read(self, start: mqplug.Start) -> None:
        with self._consumer(start) as consumer:
            self.failure = None
            ends = self._client.resolve(self._topic, mqplug.LATEST, timeout=self._timeout)
            began, read = time.monotonic(), 0
            while not self._ended.is_set():
                batch = consumer.receive_many(_BATCH, timeout=_POLL_S)
                self._keep(batch)
                self._look_at_end(consumer, ends)
                read += len(batch)
                if time.monotonic() >= began + 1:
                    began, read = time.monotonic(), 0
                elif read > MOST_PER_S:
                    self._skip(consumer, began + 1)
                    began, read = time.monotonic(), 0

    def _look_at_end(self, consumer: mqplug.Consumer, ends: Mapping[int, mqplug.Position]) -> None:
        if not self.asked:
            here = consumer.position(self._topic)
            self.asked = all(here[partition] >= end for partition, end in ends.items() if partition in here)
            self.changes += self.asked

    @contextmanager
    def _consumer(self, start: mqplug.Start) -> Iterator[mqplug.Consumer]:
        consumer = self._client.consumer(
            self._topic, start=start, missing="next", prefetch_bytes=_PREFETCH_BYTES, timeout=self._timeout
        )
        try:
            yield consumer
        finally:
            consumer.close(_POLL_S)

    def _skip(self, consumer: mqplug.Consumer, until: float) -> None:
        """Wait, and continue with the last messages if there are more."""
        self._ended.wait(max(0.0, until - time.monotonic()))
        consumer.seek(mqplug.last(FIRST), missing="next", timeout=self._timeout)
        self.skips += 1

    def _keep(self, batch: mqplug.Batch) -> None:
        for message in batch:
            self._count += 1
            self._kept.append(tail_message(self._count, message))
        self.changes += bool(batch)


_REFRESH_S: Final = 0.2


class Tail(ModelScreen):
    """The messages of a topic as they arrive."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.leave_screen", "Back"),
        Binding("slash", "search", "Search", key_display="/"),
        Binding("space", "hold", "Pause/resume"),
    ]

    def __init__(self, subject: Subject, topic: str) -> None:
        super().__init__()
        self.messages = Table(TAIL_COLUMNS, id="messages", empty="asking …")
        self._search = SearchField(placeholder="messages that contain", compact=True)
        self._topic = topic
        self._shown = subject.shown
        self._reader = TailReader(subject.client, topic, subject.timeout)
        self._held = False
        self._text = ""
        self._drawn = -1
        self._messages: Sequence[TailMessage] = ()
        self._known: tuple[Model, float] = (Model(), 0.0)

    def compose(self) -> ComposeResult:
        """Show the parts."""
        yield self.status
        yield self.messages
        yield self._search
        yield Footer()

    def on_mount(self) -> None:
        """Start reading."""
        self.set_focus(self.messages)
        self._reader.start()
        self.set_interval(_REFRESH_S, self._draw)

    def on_unmount(self) -> None:
        """Stop reading."""
        self._reader.end()

    def chosen_topic(self) -> str:
        """Return the topic."""
        return self._topic

    def show(self, model: Model, now: float) -> None:
        """Draw the status line."""
        self._known = (model, now)
        parts = [self._topic]
        parts += [f"messages with {self._text!r}"] if self._text else []
        parts += ["paused"] if self._held else []
        parts += ["some are skipped: too many arrive"] if self._reader.skips else []
        parts += [self._reader.failure] if self._reader.failure else []
        self.say_status(model, now, "  ".join([*parts, self._shown]))

    def _draw(self) -> None:
        if self._reader.defect is not None:
            raise self._reader.defect
        if self.app.screen is self and self.live and self._reader.changes != self._drawn and not self._held:
            self._drawn = self._reader.changes
            self._redraw()

    def _redraw(self) -> None:
        if not self._held:
            self._messages = self._reader.messages()
        rows = [each.row for each in self._messages if not self._text or each.contains(self._text)]
        none = f"none contains {self._text!r}" if self._messages else "no message yet"
        self.messages.show_rows(rows, none if self._reader.asked else "asking …", follow=True)
        self.show(*self._known)

    def action_hold(self) -> None:
        """Pause or resume the rows."""
        self._held = not self._held
        self._redraw()

    def action_search(self) -> None:
        """Open the search."""
        self._search.open()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while the text is typed."""
        self._text = event.value
        self.messages.highlight(event.value)
        self._redraw()

    def on_input_submitted(self) -> None:
        """Keep the search, and return to the messages."""
        self.set_focus(self.messages)

    def on_search_field_cleared(self) -> None:
        """Show all, and return to the messages."""
        self.set_focus(self.messages)

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """Show one message in full."""
        for message in self._messages:
            if message.row.key == event.key:
                self.app.push_screen(OneMessage(message, self._topic))


class OneMessage(Screen[None]):
    """A message in full."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter", "app.leave_screen", "Back")]

    def __init__(self, message: TailMessage, topic: str) -> None:
        super().__init__()
        self._message = message
        self._topic = topic

    def compose(self) -> ComposeResult:
        """Show the parts."""
        yield StatusLine()
        with VerticalScroll():
            yield Static(page(self._message), markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Show the name of the topic."""
        self.query_one(StatusLine).say(self._topic)
        self.query_one(VerticalScroll).focus()
