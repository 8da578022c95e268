"""The program: takes samples in a thread, shows them on the screen on top, and ends cleanly."""

from __future__ import annotations

import asyncio
import time
from typing import ClassVar, Final

from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message

import mqplug
from mqplug.cli._exit_codes import INTERRUPTED
from mqplug.cli._output.error_text import error_line
from mqplug.cli._top.model import Model
from mqplug.cli._top.overview import Overview
from mqplug.cli._top.parts import ModelScreen
from mqplug.cli._top.probe import Probe
from mqplug.cli._top.sample import Sample
from mqplug.cli._top.sampler import Sampler
from mqplug.cli._top.sparkline import BARS
from mqplug.cli._top.subject import Subject

SAMPLE_TIMEOUT_S: Final = 10.0
END_S: Final = 1.0
THEME: Final = "ansi-dark"  # the 16 colors of the terminal, which every terminal has


class TopApp(App[int]):
    """``mqplug top``. Its result is an exit code."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "Quit"),
        Binding("r", "hurry", "Now"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    class Sampled(Message):
        """There is a sample, or a failure."""

        def __init__(self, outcome: Sample | Exception) -> None:
            super().__init__()
            self.outcome = outcome

    def __init__(self, subject: Subject, every: float, bars: str = BARS) -> None:
        super().__init__(ansi_color=True)  # from the beginning: NO_COLOR is heeded there
        self.model = Model()
        self.defect: Exception | None = None
        self._subject = subject
        self._bars = bars
        timeout = min(subject.timeout, SAMPLE_TIMEOUT_S)
        self._probe = Probe(subject.client, timeout=timeout, group_seconds=every / 2)
        self._sampler = Sampler(self._probe.take, self._tell, every)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: int | None = None

    def on_mount(self) -> None:
        """Begin to look."""
        self.theme = THEME
        self._loop = asyncio.get_running_loop()
        self.push_screen(Overview(self._subject.shown, self._bars))
        self._sampler.start()
        if self._ending is not None:
            self.exit(self._ending)

    def on_unmount(self) -> None:
        """Stop looking."""
        self._sampler.end(0)

    def end_soon(self, code: int) -> None:
        """End with this exit code; for signal handlers, at any moment."""
        self._ending = code
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.exit, code)

    def _tell(self, outcome: Sample | Exception) -> None:
        self.post_message(self.Sampled(outcome))

    def on_top_app_sampled(self, message: Sampled) -> None:
        """Take in what the thread found, and draw it."""
        outcome = message.outcome
        if isinstance(outcome, Sample):
            self.model.add(outcome)
        elif isinstance(outcome, mqplug.Error):
            self.model.fail(error_line(outcome), time.monotonic())
        else:
            self.defect = outcome
            self.exit(1)
            return
        self._show()

    def _show(self) -> None:
        if isinstance(self.screen, Overview):
            self._probe.wanted = self.screen.visible_groups()
        if isinstance(self.screen, ModelScreen):
            self.screen.show(self.model, time.monotonic())

    def action_hurry(self) -> None:
        """Take a sample now."""
        self._sampler.hurry()

    def action_leave(self) -> None:
        """End."""
        self.exit(0)

    def action_interrupt(self) -> None:
        """End as Ctrl-C does."""
        self.exit(INTERRUPTED)
