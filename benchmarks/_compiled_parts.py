"""mqplug with and without its compiled part, as sides of a contest, and the aims of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from uuid import uuid4

import attrs

import mqplug
from benchmarks._contests import Contest, Side, Work
from benchmarks._measured_loops import ReceivingLoop, SendingLoop
from mqplug._client.diagnosis import diagnose


@attrs.frozen
class MeasuredClients:
    """The client as it is installed, and if it has a compiled part, also one that does not use it."""

    installed: mqplug.Client
    without_part: mqplug.Client | None

    def contest(
        self, name: str, ours: Sequence[Side], rivals: Sequence[Side], plain: float, part: float, *, by_cpu: bool = True
    ) -> Contest:
        """Return a contest. It must reach a share of the first rival: ``part`` with a compiled part, else ``plain``."""
        first, *others = ours
        aims = {rivals[0].name: part if self.without_part else plain}
        return Contest(
            name=name,
            ours=first,
            rivals=[*rivals, *others],
            min_speed_ratios=aims,
            min_cpu_ratios=aims if by_cpu else {},
        )

    def receiving(self, topic: str, messages: int, loop: ReceivingLoop) -> list[Side]:
        """Return the sides that read the messages of a topic. The first message is not timed."""

        def side(name: str, words: str, client: mqplug.Client) -> Side:
            @contextmanager
            def prepare() -> Iterator[Work]:
                group = f"ours-{uuid4().hex}" if loop.grouped else None
                with client.consumer(topic, group=group, start=mqplug.EARLIEST) as consumer:
                    first = consumer.receive(30)
                    assert first is not None
                    if loop.grouped:
                        consumer.ack(first)
                    yield lambda: loop.run(consumer, messages - 1)

            return Side(name, words, prepare)

        return self._sides(loop.words, side)

    def sending(self, topic: str, value: bytes, messages: int, loop: SendingLoop) -> list[Side]:
        """Return the sides that send a value to a topic repeatedly."""

        def side(name: str, words: str, client: mqplug.Client) -> Side:
            @contextmanager
            def prepare() -> Iterator[Work]:
                with client.producer(topic) as out:
                    out.send(value)
                    yield lambda: loop.run(out, value, messages)

            return Side(name, words, prepare)

        return self._sides(loop.words, side)

    def _sides(self, words: str, side: Callable[[str, str, mqplug.Client], Side]) -> list[Side]:
        sides = [side("mqplug", words, self.installed)]
        if self.without_part:
            sides.append(side("plain", "the same with native=off", self.without_part))
        return sides


@contextmanager
def measured_clients(url: str, part: str) -> Iterator[MeasuredClients]:
    """Yield the clients of a server, and print what the first reports about its compiled part."""
    print(*diagnose(url, 30).notes or [f"without {part.replace('_', '-')}"], sep="\n")
    with ExitStack() as stack:
        installed = stack.enter_context(mqplug.connect(url))
        found = find_spec(part) is not None
        plain = stack.enter_context(mqplug.connect(f"{url}{'&' if '?' in url else '?'}native=off")) if found else None
        yield MeasuredClients(installed, plain)
