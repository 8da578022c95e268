"""What goes wrong reaches Spark as one error without its history, which Spark would print in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def cut_short(call: Callable[P, R]) -> Callable[P, R]:
    """Let a method raise the errors of mqplug without their tracebacks and causes."""

    @wraps(call)
    def calling(*args: P.args, **kwargs: P.kwargs) -> R:
        from mqplug import Error

        try:
            return call(*args, **kwargs)
        except Error as error:
            raise error.with_traceback(None) from None

    return calling


def cut_short_while_reading(call: Callable[P, Iterator[R]]) -> Callable[P, Iterator[R]]:
    """As ``cut_short``, for a method whose errors come while its result is read."""

    @wraps(call)
    def reading(*args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        from mqplug import Error

        try:
            yield from call(*args, **kwargs)
        except Error as error:
            raise error.with_traceback(None) from None

    return reading
