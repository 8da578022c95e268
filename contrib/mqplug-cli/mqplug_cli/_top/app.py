"""The program: takes samples in a thread, shows them on the current screen, and exits cleanly."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import ClassVar, Final, cast

from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.pilot import Pilot

import mqplug
from mqplug_cli._error_text import error_line
from mqplug_cli._exit_codes import INTERRUPTED
from mqplug_cli._top.change_screen import ChangeScreen
from mqplug_cli._top.changes import Alter, Change, Seek, Trim
from mqplug_cli._top.detail import OneGroup, OneTopic
from mqplug_cli._top.model import GroupKey, Model, Sample, Subject
from mqplug_cli._top.overview import Overview
from mqplug_cli._top.parts import ModelScreen, tell
from mqplug_cli._top.probe import Probe, Sampler
from mqplug_cli._top.short_texts import BARS
from mqplug_cli._top.table import Table
from mqplug_cli._top.tail import Tail

SAMPLE_TIMEOUT_S: Final = 10.0
FULL_SAMPLES: Final = 2  # the first has no rates
_LOOK_S: Final = 0.05
TERMINAL_CHECK_S: Final = 1.0
THEME: Final = "ansi-dark"  # the 16 colors of the terminal, which every terminal has


class TopApp(App[int]):
    """``mqplug top``. Its result is an exit code. ``commands`` are the command lines of the changes that were made."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "Quit"),
        Binding("r", "hurry", "Now"),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    class Sampled(Message):
        """A sample was taken, or failed."""

        def __init__(self, outcome: Sample | Exception) -> None:
            super().__init__()
            self.outcome = outcome

    def __init__(
        self, subject: Subject, every: float, bars: str = BARS, take: Callable[[], Sample] | None = None
    ) -> None:
        super().__init__(ansi_color=True)  # set at construction, where NO_COLOR is read
        self.model = Model()
        self.defect: Exception | None = None
        self.commands: list[str] = []
        self._subject = subject
        self._bars = bars
        timeout = min(subject.timeout, SAMPLE_TIMEOUT_S)
        self._probe = Probe(subject.client, timeout=timeout, group_seconds=every / 2)
        self._sampler = Sampler(take or self._probe.take, self._tell, every)
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._ending: int | None = None
        self._sampled = self._full = False  # whether a sample was taken, and the screen is complete

    def on_mount(self) -> None:
        """Start sampling."""
        self.theme = THEME
        self._event_loop = asyncio.get_running_loop()
        self.push_screen(Overview(self._subject.shown, self._bars))
        self._sampler.start()
        self.set_interval(TERMINAL_CHECK_S, self._end_with_terminal)
        if self._ending is not None:
            self.exit(self._ending)

    def on_unmount(self) -> None:
        """Stop sampling."""
        self._event_loop = None
        self._sampler.end(0)

    def picture(self, size: tuple[int, int]) -> str:
        """Return the first complete screen of this size as SVG, drawn without a terminal. Raise any failure."""
        drawn: list[str] = []

        async def draw(pilot: Pilot[object]) -> None:
            while not self._full and self.defect is None:
                await pilot.pause(_LOOK_S)
            await pilot.pause()
            drawn.append(self.export_screenshot(title="mqplug top"))
            self.exit(0)

        self.run(headless=True, size=size, auto_pilot=draw)
        if (failure := self.defect or self.model.failure) is not None:
            raise failure
        return drawn[0]

    def end_soon(self, code: int) -> None:
        """Exit with this code soon. Signal handlers may call it at any moment."""
        self._ending = code
        if self._event_loop is not None:
            self._event_loop.call_soon_threadsafe(self.exit, code)

    def _end_with_terminal(self) -> None:
        """Exit if the terminal is gone. The process gets no signal if this is not its controlling terminal."""
        if not self.is_headless and not os.isatty(0):
            signal.raise_signal(signal.SIGHUP)

    def _tell(self, outcome: Sample | Exception) -> None:
        tell(self, self.Sampled(outcome))

    def on_top_app_sampled(self, message: Sampled) -> None:
        """Add the sample or failure to the model, and draw it."""
        outcome = message.outcome
        self._sampled = True
        if isinstance(outcome, Sample):
            self.model.add(outcome)
        elif isinstance(outcome, mqplug.Error):
            self.model.fail(outcome, error_line(outcome), time.monotonic())
        else:
            raise outcome
        self._show()

    def _show(self) -> None:
        """Draw the current screen. During the exit there is none, though messages still arrive."""
        screen = self.screen if self.is_running else None
        if not isinstance(screen, ModelScreen) or not screen.live:
            return
        if isinstance(screen, Overview):
            self._probe.wanted = screen.visible_groups()
        elif key := screen.chosen_group():
            self._probe.wanted = {key[0]}
        screen.show(self.model, time.monotonic())
        self._full = self._sampled and (self.model.samples >= FULL_SAMPLES or self.model.failure is not None)

    def _handle_exception(self, error: Exception) -> None:
        """Exit because of a defect, which the command reports in one line instead of textual's traceback."""
        self.defect = self.defect or error
        super()._handle_exception(error)
        self._exit_renderables.clear()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide changes in read-only mode."""
        return not (self._subject.read_only and action in {"seek", "trim", "alter"})

    def on_table_chosen(self, event: Table.Chosen) -> None:
        """Open the topic or the group of the overview."""
        if isinstance(event.key, str):
            self.push_screen(OneTopic(self._subject, self._bars, event.key))
        elif isinstance(event.key, tuple):
            self.push_screen(OneGroup(self._subject, self._bars, cast("GroupKey", event.key)))

    def action_tail(self) -> None:
        """Follow the chosen topic."""
        if (topic := self._chosen_topic()) is not None:
            self.push_screen(Tail(self._subject, topic))

    def action_seek(self) -> None:
        """Move the chosen group."""
        screen = self.screen
        if not isinstance(screen, ModelScreen):
            return
        if (key := screen.chosen_group()) is None:
            self.notify(screen.why_no_group())
        else:
            self._change(Seek(self._subject, *key))

    def action_trim(self) -> None:
        """Remove the beginning of the chosen topic."""
        if (topic := self._chosen_topic()) is not None:
            self._change(Trim(self._subject, topic))

    def action_alter(self) -> None:
        """Change the settings of the chosen topic."""
        if (topic := self._chosen_topic()) is not None:
            self._change(Alter(self._subject, topic))

    def _chosen_topic(self) -> str | None:
        topic = self.screen.chosen_topic() if isinstance(self.screen, ModelScreen) else None
        if topic is None:
            self.notify("Choose a topic first")
        return topic

    def on_model_screen_complete(self) -> None:
        """Draw a new screen with the known data."""
        self._show()

    def _change(self, change: Change) -> None:
        self.push_screen(ChangeScreen(change), self._changed)

    def _changed(self, command: str | None) -> None:
        """Keep the command line of a change that was made."""
        if command is not None:
            self.commands.append(command)
            self._sampler.hurry()

    def action_leave_screen(self) -> None:
        """Return to the previous screen. A key typed twice does not leave the first screen."""
        if not isinstance(self.screen, Overview):
            self.pop_screen()
            self._show()

    def action_hurry(self) -> None:
        """Take a sample now."""
        self._sampler.hurry()

    def action_leave(self) -> None:
        """Quit."""
        self.exit(0)

    def action_interrupt(self) -> None:
        """Quit with the exit code of Ctrl-C."""
        self.exit(INTERRUPTED)
