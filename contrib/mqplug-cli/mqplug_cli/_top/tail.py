"""The screen that follows a topic: its messages as they come, searched, stopped, and one of them in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from mqplug_cli._top.model import Model
from mqplug_cli._top.parts import ModelScreen, SearchField, StatusLine
from mqplug_cli._top.subject import Subject
from mqplug_cli._top.table import Table
from mqplug_cli._top.tail_messages import TAIL_COLUMNS, TailMessage, page
from mqplug_cli._top.tail_reader import TailReader

_REFRESH_S: Final = 0.2


class Tail(ModelScreen):
    """The messages of a topic as they come."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.leave_screen", "Back"),
        Binding("slash", "search", "Search", key_display="/"),
        Binding("space", "hold", "Hold/go on"),
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
        """Begin to read."""
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
        """Draw the line about the whole."""
        self._known = (model, now)
        parts = [self._topic]
        parts += [f"only what contains {self._text!r}"] if self._text else []
        parts += ["held"] if self._held else []
        parts += ["some are skipped: too many come"] if self._reader.skips else []
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
        """Let the rows stand still, or go on."""
        self._held = not self._held
        self._redraw()

    def action_search(self) -> None:
        """Type what messages are to contain."""
        self._search.open()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while it is typed."""
        self._text = event.value
        self.messages.highlight(event.value)
        self._redraw()

    def on_input_submitted(self) -> None:
        """Keep the search, and go on in the messages."""
        self.set_focus(self.messages)

    def on_search_field_cleared(self) -> None:
        """Show all, and go on in the messages."""
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
        """Make the parts."""
        yield StatusLine()
        with VerticalScroll():
            yield Static(page(self._message), markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Name the topic."""
        self.query_one(StatusLine).say(self._topic)
        self.query_one(VerticalScroll).focus()
