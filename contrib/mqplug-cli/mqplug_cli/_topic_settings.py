"""The settings of a topic as options: its retention, and the backend's own options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import click

from mqplug_cli._output import FOREVER
from mqplug_cli._places import seconds_of

UNIT_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def topic_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add options for the settings of a topic. The function receives ``settings``, as the client takes them."""

    @wraps(function)
    def call(
        *args: Any, retention: object, retention_bytes: int | None, options: tuple[tuple[str, object], ...], **rest: Any
    ) -> Any:
        given = {"retention": retention, "retention_bytes": retention_bytes, "options": dict(options) or None}
        return function(*args, settings={name: each for name, each in given.items() if each is not None}, **rest)

    for add in (_options, _retention_bytes, _retention):
        call = add(call)
    return call


class RetentionTime(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """How long messages are kept: 7d, 12h, or forever."""

    name = "retention"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | float:
        """Return the retention that a text names."""
        if value == FOREVER:
            return math.inf
        seconds = seconds_of(value) if value[-1:].isalpha() else None  # 7 may mean days
        if seconds is None:
            self.fail(f"{value!r} is not a time. Write one such as 30s, 12h, 7d, 2w or {FOREVER}", param, ctx)
        return timedelta(seconds=seconds)


class Size(click.ParamType):  # type: ignore[type-arg]
    """A number of bytes: 500000, 64k, 10m, 2g, also written 2GiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes that a text names."""
        found = re.fullmatch(r"(\d+)([kmgt]?)(i?b)?", str(value).lower(), re.ASCII)
        if found is None:
            self.fail(f"{value!r} is not a size. Write one such as 64k, 10m or 2g", param, ctx)
        return int(found[1]) * UNIT_BYTES[found[2]]


class BackendOption(click.ParamType):  # type: ignore[type-arg]
    """One of the backend's own options: NAME=VALUE. A whole number is passed on as an int."""

    name = "option"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, object]:
        """Return the name and the value."""
        name, sign, text = str(value).partition("=")
        if not (name and sign):
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name, int(text) if re.fullmatch(r"-?\d+", text, re.ASCII) else text


_retention = click.option(
    "--retention", type=RetentionTime(), metavar="TIME", help=f"Keep messages this long: 12h, 7d, {FOREVER}."
)
_retention_bytes = click.option(
    "--retention-bytes", type=Size(), metavar="SIZE", help="Keep this much of each partition: 64k, 10m, 2g."
)
_options = click.option(
    "-X",
    "--set",
    "options",
    type=BackendOption(),
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an option of the backend. May be repeated.",
)
