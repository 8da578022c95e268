"""Clients do not survive a fork; this notices it for the price of one comparison."""

from __future__ import annotations

import os
from typing import ClassVar

from mqplug._model.errors import ForkedClient


class ForkGuard:
    """Remembers in which process something was opened."""

    __slots__ = ("_born",)

    forks: ClassVar[int] = 0  # how many forks lie between the first process and this one

    def __init__(self) -> None:
        self._born = ForkGuard.forks

    @property
    def crossed(self) -> bool:
        """Whether this is a child of the process that opened it."""
        return self._born != ForkGuard.forks

    def check(self) -> None:
        """``ForkedClient`` in a child process."""
        if self._born != ForkGuard.forks:
            raise ForkedClient(
                "this client was opened before the process forked", fix="Connect in the child, after the fork"
            )


def _forked() -> None:
    ForkGuard.forks += 1


os.register_at_fork(after_in_child=_forked)
