"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_PREFIX = "rocksmq://"


class StorePath(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5 only
    """The path of a store, or its URL."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        text = str(value)
        if text.startswith(_PREFIX):
            text = text.removeprefix(_PREFIX).partition("?")[0]
        elif "://" in text:
            self.fail(f"{text} is not a rocksmq URL", param, ctx)
        return Path(text).expanduser().absolute()


path_argument = click.argument("path", type=StorePath())
answer_timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0), default=600, show_default=True, metavar="SECONDS",
    help="How long to wait for the process that has the store open.",
)  # fmt: skip
print_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
