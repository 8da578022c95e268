"""Errors of mqplug reach Spark as one line, without tracebacks and causes, which Spark would print in full.

Spark's workers leave a traceback out while ``SPARK_HIDE_TRACEBACK`` is set in the process. It is set for the life of an
error only, so errors of other code in the same worker keep theirs.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Final, NoReturn, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader

if TYPE_CHECKING:
    from mqplug import Error

P = ParamSpec("P")
R = TypeVar("R")

HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
HIDDEN: Final = "1"


def cut_short(call: Callable[P, R]) -> Callable[P, R]:
    """Let a method raise the errors of mqplug as their own line alone."""

    @wraps(call)
    def calling(*args: P.args, **kwargs: P.kwargs) -> R:
        from mqplug import Error

        try:
            return call(*args, **kwargs)
        except Error as error:
            raise _alone(error) from None

    return calling


def cut_short_while_reading(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """As ``cut_short``, for a method whose errors come while its result is read."""

    @wraps(call)
    def reading(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        from mqplug import Error

        try:
            yield from call(*args, **kwargs)
        except Error as error:
            raise _alone(error) from None

    return reading


def cut_short_at_first_use(
    call: Callable[P, DataSourceStreamReader],
) -> Callable[P, DataSourceStreamReader]:
    """As ``cut_short``, for ``streamReader``: the error comes from the first call of the reader.

    When ``streamReader`` itself raises, Spark raises an error of its own over it.
    """

    @wraps(call)
    def calling(*args: P.args, **kwargs: P.kwargs) -> DataSourceStreamReader:
        from mqplug import Error

        try:
            return call(*args, **kwargs)
        except Error as error:
            return _FailedStreamReader(error.with_traceback(None))

    return calling


class _FailedStreamReader(DataSourceStreamReader):
    """A reader that could not be made. Its first call says why."""

    def __init__(self, error: Error) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802
        """Raise the reason."""
        raise _alone(self._error) from None

    def latestOffset(self, *args: object) -> NoReturn:  # noqa: N802
        """Raise the reason."""
        raise _alone(self._error) from None

    def partitions(self, start: object, end: object) -> NoReturn:
        """Raise the reason."""
        raise _alone(self._error) from None

    def read(self, partition: object) -> NoReturn:
        """Raise the reason."""
        raise _alone(self._error) from None


_FIXES: Final = (
    ("create_topic|create=True", "Create the topic first, as with `mqplug create NAME`: Spark creates none"),
    (
        r"connect\(",
        "Name the backend with option('url', 'kafka://host:9092'), or a file with option('config', '/mqplug.toml')",
    ),
    ("missing=", "Set failOnDataLoss=false to continue with the messages that are left"),
    ("longer timeout", "Check that the backend is up, and try again"),
    (r"client\.capabilities", "Leave out what asks for it, or use another backend"),
    (
        "take the name back",
        "End other programs that run this write. If none does, make tasks smaller, or set kafka.transaction.timeout.ms",
    ),
    ("Read results", "Correct the rows, or the backend, and write again"),
)
"""What to do in Spark, where the fix of an error has words for programs that call mqplug."""


def _alone(error: Error) -> Error:
    """Return the error with a fix for Spark, without its traceback, and let Spark add none of its own."""
    for words, fix in _FIXES:
        if error.fix and re.search(words, error.fix):
            error.fix = fix
    if _hiding.begin():
        weakref.finalize(error, _hiding.end).atexit = False
    return error.with_traceback(None)


class _Hiding:
    """Counts the errors that are alive and wish no traceback, and sets the variable meanwhile.

    A value that somebody else has given it remains.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # an error may die, and so end, inside begin
        self._errors = 0

    def begin(self) -> bool:
        """Set the variable, unless somebody else did. Return whether ``end`` has to follow."""
        with self._lock:
            ours = {None, HIDDEN} if self._errors else {None}
            if os.environ.get(HIDE_TRACEBACK) not in ours:
                return False
            self._errors += 1
            os.environ[HIDE_TRACEBACK] = HIDDEN
        return True

    def end(self) -> None:
        """Remove the variable after the last error."""
        with self._lock:
            self._errors -= 1
            if not self._errors and os.environ.get(HIDE_TRACEBACK) == HIDDEN:
                del os.environ[HIDE_TRACEBACK]


_hiding = _Hiding()
