"""Which members in other processes still hold their logs: each has a token in the file ``members`` of the store.

A member has that file mapped, and compares its token before each message that it hands out. The owner of the store
removes the token before it lets others have the member's logs, and a new owner removes all of them before anything
else. So a member that was stopped, or has not noticed that the owner is gone, hands out nothing that others have acked.
"""

from __future__ import annotations

import logging
import mmap
import os
import secrets
import threading
from collections.abc import Callable
from functools import partial
from operator import eq
from pathlib import Path
from typing import Final, NamedTuple

from mqplug_rocksmq._engine.directory import MEMBERS
from mqplug_rocksmq._engine.store_files import open_own
from mqplug_rocksmq._settings import MAX_GUEST_CONNECTIONS

_TOKEN_BYTES: Final = 8
_FILE_BYTES: Final = MAX_GUEST_CONNECTIONS * _TOKEN_BYTES
_UNGUARDED: Final = "members in other processes may hand out what others have acked meanwhile: %s"
_log = logging.getLogger("mqplug.rocksmq")


class MemberToken(NamedTuple):
    """Where in the file the token of a member stands, and what it is."""

    place: int
    token: str


class MemberTokens:
    """The tokens of the members of other processes, for the owner of a store. Any thread."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._free = list(reversed(range(MAX_GUEST_CONNECTIONS)))
        self._file: int | None = open_own(path / MEMBERS, os.O_RDWR | os.O_CREAT)
        try:
            # Written, not mapped: where a disk is full, to write to what is mapped would kill the process.
            if os.pread(self._file, _FILE_BYTES, 0) != bytes(_FILE_BYTES):
                os.pwrite(self._file, bytes(_FILE_BYTES), 0)
        except OSError as error:
            _log.warning(_UNGUARDED, error)
            self.close()

    def admit(self) -> MemberToken | None:
        """Make a token for one more member; None where none can be stored."""
        with self._lock:
            if self._file is None or not self._free:
                return None
            membership = MemberToken(self._free.pop(), secrets.token_hex(_TOKEN_BYTES))
            try:
                os.pwrite(self._file, bytes.fromhex(membership.token), membership.place * _TOKEN_BYTES)
            except OSError as error:
                self._free.append(membership.place)
                _log.warning(_UNGUARDED, error)
                return None
            return membership

    def end(self, membership: MemberToken) -> None:
        """Remove the token of a member: when this returns, it hands out nothing more of what it has."""
        with self._lock:
            if self._file is not None:
                os.pwrite(self._file, bytes(_TOKEN_BYTES), membership.place * _TOKEN_BYTES)
                self._free.append(membership.place)

    def close(self) -> None:
        """Let go of the file; what it says stays until the next owner comes."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def abandon(self) -> None:
        """In the child of a fork: let go of the file, whoever held the lock."""
        self._lock = threading.Lock()
        self.close()


def token_check(path: Path, membership: MemberToken) -> Callable[[], bool]:
    """Return what tells whether a member of this process still holds its logs: it only compares memory."""
    file = open_own(path / MEMBERS, os.O_RDONLY)
    try:
        mapped = memoryview(mmap.mmap(file, _FILE_BYTES, prot=mmap.PROT_READ))
    finally:
        os.close(file)
    begin = membership.place * _TOKEN_BYTES
    return partial(eq, mapped[begin : begin + _TOKEN_BYTES], bytes.fromhex(membership.token))
