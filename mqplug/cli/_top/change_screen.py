"""The screen of a change: what is typed, what it would do, the command line that does the same, the confirmation."""

from __future__ import annotations

from typing import ClassVar

import click
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Footer, Input, Label, Static

import mqplug
from mqplug.cli._output.error_text import error_line
from mqplug.cli._top.changes import Change, Plan
from mqplug.cli._top.parts import Answer, StatusLine, ask
from mqplug.cli._top.table import Table


class ChangeScreen(Screen[str | None]):
    """Shows what a change would do before it can be confirmed. Its result is the command line of what was done."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back"),
        Binding("ctrl+y", "copy", "Copy the command"),
    ]
    DEFAULT_CSS = """
    ChangeScreen Input { border: none; height: 1; padding: 0 1; }
    ChangeScreen Input:focus { border: none; text-style: underline; }
    ChangeScreen .part { height: auto; margin-top: 1; }
    ChangeScreen #plan { display: none; height: 1fr; }
    ChangeScreen #outcome { text-style: bold; }
    """

    def __init__(self, change: Change) -> None:
        super().__init__()
        self._change = change
        self._plan: Plan | None = None
        self._asked = 0  # a plan of what was typed before is no answer
        self._applying = False
        self._applied: str | None = None

    def compose(self) -> ComposeResult:
        """Make the parts."""
        yield StatusLine()
        for field in self._change.fields:
            yield Label(f"{field.name}: {field.hint}", markup=False)
            yield Input(id=field.name, compact=True)
        yield Static(id="outcome", classes="part", markup=False)
        with Vertical(id="plan"):
            yield Static(id="summary", classes="part", markup=False)
            yield Static("The same on the command line:", classes="part")
            yield Static(id="command", markup=False)
            yield Label(f"Type {self._change.confirmation} and Enter to do it:", classes="part", markup=False)
            yield Input(id="confirmation", compact=True)
            yield Vertical(id="rows", classes="part")
        yield Footer()

    def on_mount(self) -> None:
        """Begin in the first field."""
        self.query_one(StatusLine).say(self._change.title)
        self.query(Input).first().focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on: to the next field, to the plan, or to the change itself."""
        if self._applying:
            return
        if event.input.id == "confirmation":
            self._confirm(event.value)
            return
        names = [field.name for field in self._change.fields]
        if event.input.id != names[-1] and not event.value:
            self.focus_next()
            return
        self._ask_plan()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Forget the plan of what was typed before."""
        if event.input.id != "confirmation" and not self._applying:
            self._asked += 1
            self._plan = None
            self.query_one("#plan").display = False

    def _ask_plan(self) -> None:
        typed = {field.name: self.query_one(f"#{field.name}", Input).value.strip() for field in self._change.fields}
        self._say("asking …")
        self._asked += 1
        ask(self, f"plan {self._asked}", lambda: self._change.plan(typed))

    def _confirm(self, typed: str) -> None:
        plan = self._plan
        if plan is None or plan.obstacle is not None:
            return
        if typed != self._change.confirmation:
            self._say(f"nothing is done: this is not {self._change.confirmation}")
            return
        self._applying = True
        self._say("doing it …")
        ask(self, "apply", plan.apply)

    def on_answer(self, answer: Answer) -> None:
        """Show the plan, what was done, or why not."""
        outcome = answer.outcome
        if answer.question not in {"apply", f"plan {self._asked}"} or self not in self.app.screen_stack:
            return
        if isinstance(outcome, Exception):
            self._applying = False
            self._say(_reason(outcome))
        elif isinstance(outcome, Plan):
            self._show(outcome)
        else:
            self._applied = self._plan.command if self._plan else None
            self._say(f"{outcome}. Escape goes back")

    def _show(self, plan: Plan) -> None:
        self._plan = plan
        self._say(plan.obstacle or "")
        self.query_one("#summary", Static).update(plan.summary)
        self.query_one("#command", Static).update(plan.command)
        rows = self.query_one("#rows", Vertical)
        rows.remove_children()
        table = Table(plan.columns)
        rows.mount(table)
        table.show_rows(plan.rows)
        self.query_one("#plan").display = True
        confirmation = self.query_one("#confirmation", Input)
        confirmation.value = ""
        confirmation.disabled = plan.obstacle is not None
        confirmation.focus()

    def _say(self, text: str) -> None:
        self.query_one("#outcome", Static).update(text)

    def action_copy(self) -> None:
        """Put the command line into the terminal's clipboard."""
        if self._plan is not None:
            self.app.copy_to_clipboard(self._plan.command)
            self._say("the command is in the clipboard, if the terminal allows it")

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(self._applied)


def _reason(error: Exception) -> str:
    """Return why something cannot be done. Raise what is a defect."""
    if isinstance(error, mqplug.Error):
        return error_line(error)
    if isinstance(error, click.UsageError):
        return error.message
    if isinstance(error, ValueError):
        return str(error)
    raise error
