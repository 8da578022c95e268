"""Tokens of group members in client processes, in the store's file ``members``: a member with a token holds its logs.

A member maps that file into memory, and compares its token before each message that it hands out. The owner of the
store removes the token before it gives the member's logs to others. A new owner removes all tokens before anything
else. So a member that was suspended, or has not noticed that the owner is gone, hands out no message that others have
acked.
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
from mqplug_rocksmq._settings import MAX_CLIENT_CONNECTIONS

_TOKEN_BYTES: Final = 8
_FILE_BYTES: Final = MAX_CLIENT_CONNECTIONS * _TOKEN_BYTES
_UNGUARDED: Final = (
    "store %s: writing the tokens of members failed, so members may hand out messages that others have acked: %s"
)
_log = logging.getLogger("mqplug.rocksmq")


class MemberToken(NamedTuple):
    """The token of a member, and its place in the file."""

    place: int
    token: str


class MemberTokens:
    """The tokens of all members in client processes, for the owner of a store. Any thread may call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._free = list(reversed(range(MAX_CLIENT_CONNECTIONS)))
        self._file: int | None = open_own(path / MEMBERS, os.O_RDWR | os.O_CREAT)
        try:
            # Written, not mapped: on a full disk, writing to mapped memory would kill the process.
            if os.pread(self._file, _FILE_BYTES, 0) != bytes(_FILE_BYTES):
                os.pwrite(self._file, bytes(_FILE_BYTES), 0)
        except OSError as error:
            _log.warning(_UNGUARDED, self._path, error)
            self.close()

    def admit(self) -> MemberToken | None:
        """Return a token for one more member, or None if it cannot be stored."""
        with self._lock:
            if self._file is None or not self._free:
                return None
            member = MemberToken(self._free.pop(), secrets.token_hex(_TOKEN_BYTES))
            try:
                os.pwrite(self._file, bytes.fromhex(member.token), member.place * _TOKEN_BYTES)
            except OSError as error:
                self._free.append(member.place)
                _log.warning(_UNGUARDED, self._path, error)
                return None
            return member

    def end(self, token: MemberToken) -> None:
        """Remove the token of a member. Afterwards the member hands out no more messages of its logs."""
        with self._lock:
            if self._file is not None:
                os.pwrite(self._file, bytes(_TOKEN_BYTES), token.place * _TOKEN_BYTES)
                self._free.append(token.place)

    def close(self) -> None:
        """Close the file. Its tokens stay until the next owner removes them."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def abandon(self) -> None:
        """Close the file in the child of a fork, whichever thread held the lock."""
        self._lock = threading.Lock()
        self.close()


def token_check(path: Path, token: MemberToken) -> Callable[[], bool]:
    """Return a function that checks whether a member of this process still holds its logs. It only compares memory."""
    file = open_own(path / MEMBERS, os.O_RDONLY)
    try:
        mapped = memoryview(mmap.mmap(file, _FILE_BYTES, prot=mmap.PROT_READ))
    finally:
        os.close(file)
    begin = token.place * _TOKEN_BYTES
    return partial(eq, mapped[begin : begin + _TOKEN_BYTES], bytes.fromhex(token.token))
