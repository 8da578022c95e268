"""Says on standard error what was stored, and what was not."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mqplug_cli._messages.sending import Failures, Outcomes


class InputNames:
    """How inputs are called: line 3, or by the names of files."""

    def __init__(self, noun: str, names: Sequence[str] | None = None) -> None:
        self._noun = noun
        self._names = names

    def one(self, number: int) -> str:
        """Return what an input is called."""
        return f"{self._noun} {self._short(number)}"

    def several(self, failures: Failures) -> str:
        """Return what inputs are called, as far as they were kept."""
        named = ", ".join(map(self._short, failures.numbers))
        more = failures.count - len(failures.numbers)
        return f"{self._noun}{'s' if failures.count > 1 else ''} {named}" + (f" and {more:,} more" if more else "")

    def _short(self, number: int) -> str:
        return f"{number:,}" if self._names is None else self._names[number - 1]


def report(outcomes: Outcomes, names: InputNames, read: int) -> None:
    """Print the reasons of failures, and one line that counts."""
    for number, reason in sorted(outcomes.reasons):
        click.echo(f"error: {names.one(number)}: {reason}", err=True)
    said = [f"stored {outcomes.stored:,} message{'' if outcomes.stored == 1 else 's'}"]
    if outcomes.refused.count:
        said.append(f"{outcomes.refused.count:,} not: {names.several(outcomes.refused)}")
    if outcomes.in_doubt.count:
        said.append(f"{outcomes.in_doubt.count:,} may be stored or not: {names.several(outcomes.in_doubt)}")
    unsent = read - outcomes.stored - outcomes.refused.count - outcomes.in_doubt.count
    if unsent > 0:
        since = "" if outcomes.last is None else f" behind {names.one(outcomes.last)}"
        said.append(f"{unsent:,} read{since} and not sent")
    click.echo("; ".join(said), err=True)
