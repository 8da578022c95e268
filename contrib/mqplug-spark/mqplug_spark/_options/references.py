"""References in options, which each process resolves for itself: ``${NAME}`` to a variable, ``${file:PATH}`` to a file.

Options travel to all processes, and Spark shows many of them. What is behind a reference does neither.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import quote

from mqplug import ConfigError

FILE_PREFIX: Final = "file:"
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")


def resolve(option: str, text: str) -> str:
    """Return the text with its references replaced, and ``$${`` by ``${``. Raise ``ConfigError`` for a missing one."""
    return _REFERENCE.sub(lambda found: _value(option, found), text)


def resolve_url(text: str) -> str:
    """Return a URL with its references replaced. One that is only a part of the URL is escaped as URLs need it."""
    whole = _REFERENCE.fullmatch(text)
    if whole is not None:
        return _value("url", whole)
    return _REFERENCE.sub(lambda found: quote(_value("url", found), safe=""), text)


def is_reference(text: str) -> bool:
    """Return whether a text is one reference and nothing else."""
    found = _REFERENCE.fullmatch(text)
    return found is not None and found[1] is not None


def _value(option: str, found: re.Match[str]) -> str:
    name = found[1]
    if name is None:
        return "${"
    if name.startswith(FILE_PREFIX):
        return _content(option, name.removeprefix(FILE_PREFIX))
    if name not in os.environ:
        raise ConfigError(
            f"the option {option!r} refers to the variable {name!r}, which is not set in this process",
            fix=f"Set {name} for the driver, and for the executors, as with spark.executorEnv.{name}",
        )
    return os.environ[name]


def _content(option: str, path: str) -> str:
    """Return what a file holds, without the end of its last line."""
    try:
        return Path(path).read_text(encoding="utf-8").removesuffix("\n")
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    raise ConfigError(
        f"the option {option!r} refers to the file {path!r}, which this process cannot read: {reason}",
        fix="Mount it at this path for the driver and for the executors",
    )
