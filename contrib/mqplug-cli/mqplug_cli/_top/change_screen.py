"""The screen of a change: its input, its effect, the equivalent command line, and the confirmation."""

from __future__ import annotations

from typing import ClassVar

import click
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Footer, Input, Label, Static

import mqplug
from mqplug_cli._error_text import error_line
from mqplug_cli._top.changes import Change, Plan
from mqplug_cli._top.parts import Answer, StatusLine, ask
from mqplug_cli._top.table import Table


class ChangeScreen(Screen[str | None]):
    """Shows the effect of a change before it can be confirmed. Its result is the command line of the change made."""

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
        self._asked = 0  # number of the latest question: a plan of earlier input is ignored
        self._applying = False
        self._applied: str | None = None
        self._status = StatusLine()
        self._typed = {field.name: Input(id=field.name, compact=True) for field in change.fields}
        self._outcome = Static(id="outcome", classes="part", markup=False)
        self._planned = Vertical(id="plan")
        self._summary = Static(id="summary", classes="part", markup=False)
        self._command = Static(id="command", markup=False)
        self._confirmation = Input(id="confirmation", compact=True)
        self._rows = Vertical(id="rows", classes="part")

    def compose(self) -> ComposeResult:
        """Show the parts."""
        yield self._status
        for field in self._change.fields:
            yield Label(f"{field.name}: {field.hint}", markup=False)
            yield self._typed[field.name]
        yield self._outcome
        with self._planned:
            yield self._summary
            yield Static("On the command line:", classes="part")
            yield self._command
            yield Label(f"To confirm, type {self._change.confirmation}, then Enter:", classes="part", markup=False)
            yield self._confirmation
            yield self._rows
        yield Footer()

    def on_mount(self) -> None:
        """Focus the first field."""
        self._status.say(self._change.title)
        self.set_focus(next(iter(self._typed.values())))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Continue with the next field, the plan, or the change itself."""
        if self._applying:
            return
        if event.input.id == "confirmation":
            self._confirm(event.value)
            return
        if event.input is not [*self._typed.values()][-1] and not event.value:
            self.focus_next()
            return
        self._ask_plan()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Forget the plan of earlier input."""
        if event.input.id != "confirmation" and not self._applying:
            self._asked += 1
            self._plan = None
            self._planned.display = False

    def _ask_plan(self) -> None:
        typed = {name: field.value.strip() for name, field in self._typed.items()}
        self._say("asking …")
        self._asked += 1
        ask(self, f"plan {self._asked}", lambda: self._change.plan(typed))

    def _confirm(self, typed: str) -> None:
        plan = self._plan
        if plan is None or plan.obstacle is not None:
            return
        if typed != self._change.confirmation:
            self._say(f"nothing was done: this is not {self._change.confirmation}")
            return
        self._applying = True
        self._say("changing …")
        ask(self, "apply", plan.apply)

    @property
    def _live(self) -> bool:
        return self.app.is_running and self in self.app.screen_stack

    def on_answer(self, answer: Answer) -> None:
        """Show the plan, the result, or the reason of a failure."""
        outcome = answer.outcome
        if answer.question not in {"apply", f"plan {self._asked}"} or not self._live:
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
        self._summary.update(plan.summary)
        self._command.update(plan.command)
        self._rows.remove_children()
        table = Table(plan.columns)
        self._rows.mount(table)
        table.show_rows(plan.rows)
        self._planned.display = True
        self._confirmation.value = ""
        self._confirmation.disabled = plan.obstacle is not None
        self._confirmation.focus()

    def _say(self, text: str) -> None:
        self._outcome.update(text)

    def action_copy(self) -> None:
        """Put the command line into the terminal's clipboard."""
        if self._plan is not None:
            self.app.copy_to_clipboard(self._plan.command)
            self._say("copied the command, if the terminal allows it")

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(self._applied)


def _reason(error: Exception) -> str:
    """Return the reason of a failure. Raise a defect."""
    if isinstance(error, mqplug.Error):
        return error_line(error)
    if isinstance(error, click.UsageError):
        return error.message
    if isinstance(error, ValueError):
        return str(error)
    raise error
