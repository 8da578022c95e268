"""Parts that the screens of top share: the line about the whole, and a field to type into."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input, Static

from mqplug.cli._top.model import Model


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
    SearchField.shown { display: block; }
    """

    class Cleared(Message):
        """The search is over."""

    def open(self) -> None:
        """Show the field, and type into it."""
        self.add_class("shown")
        self.focus()

    def action_clear_search(self) -> None:
        """Search nothing any more."""
        self.value = ""
        self.remove_class("shown")
        self.post_message(self.Cleared())


class ModelScreen(Screen[None]):
    """A screen that is drawn anew with each sample."""

    def show(self, model: Model, now: float) -> None:
        """Draw what is known."""
        raise NotImplementedError
