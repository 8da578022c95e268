"""Memory backends for the kit's failure reports: each seeks, or opens, wrongly in another way."""

from __future__ import annotations

import asyncio
import time

from mutants.base import Mutant, Proxy

import mqplug


class TooEarly(Mutant):
    """Seeks one message too far back."""

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            early = {log: type(each)(log, (max(0, each.coordinates[0] - 1),)) for log, each in positions.items()}
            self.inner.seek(early, timeout)


class Defective(Mutant):
    """Raises because of a defect, with a cause."""

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            try:
                {}["table"]
            except KeyError as native:
                raise RuntimeError("seek has no table") from native


class Raising(Mutant):
    """Raises an error of another kind."""

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            raise mqplug.PositionLost("gone for good")


class OpensNoGroup(Mutant):
    """Raises because of a defect when a group is opened."""

    class Connection(Proxy):
        def start_group(self, group, options):
            raise RuntimeError("start_group has no table")


class Hanging(Mutant):
    """Takes a minute to seek."""

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            time.sleep(60)


class LeavesATask(Mutant):
    """Starts a task, and closes its loop before the task has ended."""

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            loop = asyncio.new_event_loop()
            left = loop.create_task(asyncio.sleep(60))
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
            del left
            self.inner.seek(positions, timeout)


class LeavesACoroutine(Mutant):
    """Forgets to await a coroutine."""

    class Consumer(Proxy):
        def seek(self, positions, timeout):
            asyncio.sleep(60)
            self.inner.seek(positions, timeout)


class Sound(Mutant):
    """Seeks correctly."""
