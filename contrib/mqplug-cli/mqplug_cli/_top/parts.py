"""Parts that the screens of top share: the line about the whole, a field to search with, and questions in threads."""

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
    """What is looked at, and how it does."""

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
    """A field at the bottom, shown while something is searched. Escape clears and hides it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "clear_search", "Show all")]
    DEFAULT_CSS = """
    SearchField { dock: bottom; height: 1; border: none; padding: 0; display: none; margin-bottom: 1; }
    SearchField:focus { border: none; }
    """

    class Cleared(Message):
        """The search is over."""

    def open(self) -> None:
        """Show the field, and type into it."""
        self.display = True
        self.screen.set_focus(self)

    def action_clear_search(self) -> None:
        """Search nothing any more."""
        self.value = ""
        self.display = False
        self.post_message(self.Cleared())


class ModelScreen(Screen[None]):
    """A screen that is drawn anew with each sample, and from which a topic or a group is changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "app.tail", "Tail"),
        Binding("s", "app.seek", "Seek"),
        Binding("x", "app.trim", "Trim"),
        Binding("a", "app.alter", "Alter"),
    ]

    complete = False

    class Complete(Message):
        """The parts of a screen are there, and can be drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.status = StatusLine()  # subclasses keep their parts, too: a query fails where the screen is being removed

    def on_mount(self) -> None:
        """Tell that the parts are there."""
        self.complete = True
        self.post_message(self.Complete())

    @property
    def live(self) -> bool:
        """Whether it is there to be drawn, with its parts, which come after it."""
        return self.complete and self.app.is_running and self in self.app.screen_stack

    def chosen_topic(self) -> str | None:
        """Return the topic that is looked at."""
        return None

    def chosen_group(self) -> GroupKey | None:
        """Return the group that is looked at, and its topic."""
        return None

    def why_no_group(self) -> str:
        """Return why no group is looked at, and what to do."""
        return "Choose a group first: Tab goes to the groups of the first screen"

    def show(self, model: Model, now: float) -> None:
        """Draw what is known."""
        raise NotImplementedError

    def say_status(self, model: Model, now: float, text: str) -> None:
        """Show a text in the first line; while there is an outage, since when and why."""
        if model.outage is None:
            self.status.say(text)
        else:
            self.status.say(f"no answer for {int(now - model.outage.since)} s: {model.outage.reason}", outage=True)


def tell(receiver: MessagePump, message: Message) -> None:
    """Post a message from a thread, unless the program ends at this very moment, and its event loop is gone."""
    with suppress(RuntimeError, AttributeError):
        receiver.post_message(message)


class Answer(Message):
    """What became of a question: its answer, or an exception."""

    def __init__(self, question: str, outcome: object) -> None:
        super().__init__()
        self.question = question
        self.outcome = outcome


def ask(widget: Widget, question: str, work: Callable[[], object]) -> None:
    """Do some work in a thread. The widget gets the ``Answer``. Nothing waits for the thread at the end."""

    def run() -> None:
        outcome: object
        try:
            outcome = work()
        except Exception as error:  # noqa: BLE001 - shown by the widget
            outcome = error
        tell(widget, Answer(question, outcome))

    threading.Thread(target=run, name=f"mqplug-top-{question}", daemon=True).start()
