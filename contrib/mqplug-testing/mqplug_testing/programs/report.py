"""What a run of random programs found: counts, and the program that broke a rule, as Python to paste."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from mqplug_testing.model import RULES, RuleBroken
from mqplug_testing.programs._steps.base import Step
from mqplug_testing.programs.generate import Pairs
from mqplug_testing.programs.play import CLIENTS, PLACES, Line, Statement


@attrs.frozen
class Failure:
    """A program that broke a rule."""

    broken: RuleBroken
    steps: tuple[Step, ...]
    lines: tuple[Line, ...]

    def program(self, url: str = "memory") -> str:
        """Return the program as Python, with what each call returned, the rule, and what it allows."""
        statements = [_pasted(line.statement, url) for line in self.lines]
        text = "\n".join(statements)
        clients = [name for name in CLIENTS if f"{name}." in text]
        hooks = [name for name in HOOKS if f"{name}()" in statements]
        names = [name for name in PLACES if re.search(rf"\b{name}\b", text)]
        return "\n".join([
            *(f"import {name}" for name in IMPORTS if f"{name}." in text or name in ALWAYS), "", "import mqplug", "",
            "random.seed(0)  # producers draw the first partition for records without a key",
            *(f"{client} = mqplug.connect({url!r})" for client in clients),
            *(f"{name} = lambda: input('Call {name} of the harness, then press Enter: ')" for name in hooks),
            'run = f"random-{uuid.uuid4().hex[:8]}"',
            *(f'{name} = f"{{run}}-{PLACES[name]}"' for name in names),
            *(_told(statement, line) for statement, line in zip(statements[:-1], self.lines, strict=False)),
            *_shown(self.lines[-1].statement, statements[-1]),
            "", f"# This breaks the rule {self.broken.rule!r} of docs/rules.md:",
            *(f"#   {line}" for line in RULES[self.broken.rule].splitlines()),
            f"# allowed: {self.broken.allowed}",
            f"# seen:    {self.broken.seen}",
        ])  # fmt: skip


IMPORTS: Final = ("contextlib", "pickle", "random", "time", "uuid")
ALWAYS: Final = ("contextlib", "random", "uuid")
HOOKS: Final = ("restart", "kill", "start")
LISTENERS: Final = re.compile(r", on_assigned=\w+, on_revoked=\w+")


def _pasted(statement: Statement, url: str) -> str:
    """Return a statement as it can be pasted: without listeners, and with the URL."""
    text = LISTENERS.sub("", str(statement))
    return text.replace("connect()", f"mqplug.connect({url!r})") if statement.code == "connect()" else text


def _shown(statement: Statement, text: str) -> Iterator[str]:
    """Yield the last statement, and a line that prints its value."""
    if not statement.names:
        yield f"print({text})"
    else:
        yield text
        yield f"print({', '.join(statement.names)})"


def _told(statement: str, line: Line) -> str:
    """Return a statement with its outcome. An error that the rules allow does not end the program."""
    allowed = "" if line.outcome.error is None else "with contextlib.suppress(Exception): "
    return f"{allowed}{statement}  # {_brief(line)}"


def _brief(line: Line) -> str:
    text = " ".join(str(line.outcome).split())
    return text if len(text) < 100 else f"{text[:97]}..."


@attrs.define
class Findings:
    """The result of a run: its seed, how much was done, and the failure, if any.

    ``repeated`` is the number of programs from the corpus, which the other counts leave out.
    ``operations`` is the number of different calls that the backend allows. ``pairs`` counts which followed which, and
    ``rules`` how often each rule of the model was checked.
    """

    seed: int
    operations: int = 0
    repeated: int = 0
    programs: int = 0
    steps: int = 0
    pairs: Pairs = attrs.field(factory=Counter)
    rules: Counter[str] = attrs.field(factory=Counter)
    failure: Failure | None = None

    def count(self, steps: Sequence[Step]) -> None:
        """Count a program."""
        self.programs += 1
        self.steps += len(steps)

    @property
    def unchecked(self) -> list[str]:
        """The rules of the model that no call was judged by."""
        return [rule for rule in RULES if rule not in self.rules]

    def __str__(self) -> str:
        pairs = f"{len(self.pairs)} of {self.operations * (self.operations + 1)} pairs of operations"
        rules = f"{len(RULES) - len(self.unchecked)} of {len(RULES)} rules"
        repeated = f"{self.repeated} programs of the corpus, " if self.repeated else ""
        text = f"{repeated}{self.programs} programs, {self.steps} steps, {pairs}, {rules}, --seed {self.seed}"
        return f"{text}\nrules that were never checked: {', '.join(self.unchecked)}" if self.unchecked else text
