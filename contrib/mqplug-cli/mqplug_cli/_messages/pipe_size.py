"""Makes pipes wider, so that both ends wait for each other less often."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

_PIPE_BYTES: Final = 1024 * 1024


def widen_pipe(descriptor: int) -> None:
    """Let a pipe hold 1 MiB, where the system can. Anything else stays as it is."""
    import fcntl

    with suppress(AttributeError, OSError):  # not Linux, no pipe, or more than a user may have
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
