"""Detection of forks, which clients do not survive. A check costs one comparison."""

from __future__ import annotations

import os
from typing import ClassVar

from mqplug._model.errors import ForkedClient


class ForkGuard:
    """A guard that detects whether an object is used in a fork of the process that opened it."""

    __slots__ = ("_born",)

    forks: ClassVar[int] = 0  # the number of forks between the first process and this one

    def __init__(self) -> None:
        self._born = ForkGuard.forks

    @property
    def crossed(self) -> bool:
        """Whether this process is a child of the one that opened the object."""
        return self._born != ForkGuard.forks

    def check(self) -> None:
        """Raise ``ForkedClient`` in a child process."""
        if self._born != ForkGuard.forks:
            raise ForkedClient(
                "this client was opened before the process forked", fix="Connect in the child, after the fork"
            )


def _forked() -> None:
    ForkGuard.forks += 1


os.register_at_fork(after_in_child=_forked)
