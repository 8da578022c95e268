"""One-line errors of mqplug for Spark, without the tracebacks and causes that Spark would print in full.

Spark's workers omit tracebacks while ``SPARK_HIDE_TRACEBACK`` is set in the process. It is set only while an error of
mqplug is alive, so errors of other code in the same worker keep theirs.
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
    """Make a method raise mqplug's errors as a single line."""

    @wraps(call)
    def calling(*args: P.args, **kwargs: P.kwargs) -> R:
        from mqplug import Error

        try:
            return call(*args, **kwargs)
        except Error as error:
            raise _as_one_line(error) from None

    return calling


def cut_short_while_reading(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """Do the same as ``cut_short`` for a method whose errors come while its result is iterated."""

    @wraps(call)
    def reading(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        from mqplug import Error

        try:
            yield from call(*args, **kwargs)
        except Error as error:
            raise _as_one_line(error) from None

    return reading


def cut_short_at_first_use(
    call: Callable[P, DataSourceStreamReader],
) -> Callable[P, DataSourceStreamReader]:
    """Do the same as ``cut_short`` for ``streamReader``, but raise the error from the first call of the reader.

    If ``streamReader`` itself raises, Spark raises another error on top.
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
    """A stand-in for a reader that could not be created. Every call raises the reason."""

    def __init__(self, error: Error) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802
        """Raise the reason."""
        raise _as_one_line(self._error) from None

    def latestOffset(self, *args: object) -> NoReturn:  # noqa: N802
        """Raise the reason."""
        raise _as_one_line(self._error) from None

    def partitions(self, start: object, end: object) -> NoReturn:
        """Raise the reason."""
        raise _as_one_line(self._error) from None

    def read(self, partition: object) -> NoReturn:
        """Raise the reason."""
        raise _as_one_line(self._error) from None


_FIXES: Final = (
    ("create_topic|create=True", "Create the topic first, for example with `mqplug create NAME`: Spark creates none"),
    (
        r"connect\(",
        "Set option('url', 'kafka://host:9092'), or name a configuration file with option('config', '/mqplug.toml')",
    ),
    ("missing=", "Set failOnDataLoss=false to continue with the remaining messages"),
    ("longer timeout", "Check that the backend is up, and try again"),
    (r"client\.capabilities", "Do without it, or use another backend"),
    (
        "take the name back",
        "Stop other programs that run this write; otherwise make tasks smaller, or set kafka.transaction.timeout.ms",
    ),
    ("Read results", "Correct the rows or the backend, and write again"),
)
"""Fixes in Spark's terms, by a pattern of the fix for Python programs that they replace."""


def _as_one_line(error: Error) -> Error:
    """Return the error with a fix in Spark's terms and without a traceback, and keep Spark from adding one."""
    for words, fix in _FIXES:
        if error.fix and re.search(words, error.fix):
            error.fix = fix
    if _hiding.begin():
        weakref.finalize(error, _hiding.end).atexit = False
    return error.with_traceback(None)


class _Hiding:
    """The number of live errors whose traceback is hidden. The variable is set while there are any.

    A value set by other code is kept.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: garbage collection during begin may call end
        self._errors = 0

    def begin(self) -> bool:
        """Set the variable unless other code has set it. Return whether ``end`` must follow."""
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
