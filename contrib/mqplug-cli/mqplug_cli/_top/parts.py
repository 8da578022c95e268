"""Parts that the screens of top share: the status line, the search field, and queries in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from mqplug_cli._top.model import GroupKey, Model


class StatusLine(Static):
    """The first line of a screen: its subject and state."""

    DEFAULT_CSS = """
    StatusLine { height: 1; text-style: bold; }
    StatusLine.outage { text-style: reverse; color: ansi_red; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)

    def say(self, text: str, outage: bool = False) -> None:
        """Show a text."""
        self.set_class(outage, "outage")
        self.update(text)


class SearchField(Input):
    """A field at the bottom, shown during a search. Escape clears and hides it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear_search", "Show all")]
    DEFAULT_CSS = """
    SearchField { dock: bottom; height: 1; border: none; padding: 0; display: none; margin-bottom: 1; }
    SearchField:focus { border: none; }
    """

    class Cleared(Message):
        """The search has ended."""

    def open(self) -> None:
        """Show the field, and type into it."""
        self.display = True
        self.screen.set_focus(self)

    def action_clear_search(self) -> None:
        """End the search."""
        self.value = ""
        self.display = False
        self.post_message(self.Cleared())


class ModelScreen(Screen[None]):
    """A screen that is redrawn with each sample and offers changes of a topic or a group."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "app.tail", "Tail"),
        Binding("s", "app.seek", "Seek"),
        Binding("x", "app.trim", "Trim"),
        Binding("a", "app.alter", "Alter"),
    ]

    complete = False

    class Complete(Message):
        """The parts of a screen exist and can be drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.status = StatusLine()  # kept, as parts of subclasses are: a query fails while the screen is removed

    def on_mount(self) -> None:
        """Announce that the parts exist."""
        self.complete = True
        self.post_message(self.Complete())

    @property
    def live(self) -> bool:
        """Whether the screen can be drawn. Its parts are created after it."""
        return self.complete and self.app.is_running and self in self.app.screen_stack

    def chosen_topic(self) -> str | None:
        """Return the selected topic."""
        return None

    def chosen_group(self) -> GroupKey | None:
        """Return the selected group and its topic."""
        return None

    def why_no_group(self) -> str:
        """Return why no group is selected, and what to do."""
        return "Choose a group first: Tab goes to the groups of the first screen"

    def show(self, model: Model, now: float) -> None:
        """Draw the known data."""
        raise NotImplementedError

    def say_status(self, model: Model, now: float, text: str) -> None:
        """Show a text in the first line, or during an outage its duration and reason."""
        if model.outage is None:
            self.status.say(text)
        else:
            self.status.say(f"no answer for {int(now - model.outage.since)} s: {model.outage.reason}", outage=True)


def tell(receiver: MessagePump, message: Message) -> None:
    """Post a message from a thread. It is dropped if the program is exiting and its event loop is gone."""
    with suppress(RuntimeError, AttributeError):
        receiver.post_message(message)


class Answer(Message):
    """The outcome of a question: its answer, or an exception."""

    def __init__(self, question: str, outcome: object) -> None:
        super().__init__()
        self.question = question
        self.outcome = outcome


def ask(widget: Widget, question: str, work: Callable[[], object]) -> None:
    """Do some work in a thread. The widget receives the ``Answer``. The exit does not wait for the thread."""

    def run() -> None:
        outcome: object
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - shown by the widget
            outcome = error
        tell(widget, Answer(question, outcome))

    threading.Thread(target=run, name=f"mqplug-top-{question}", daemon=True).start()
