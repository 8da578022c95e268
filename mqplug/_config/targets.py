"""Checks targets as people write them: names of backends, URLs, and paths of configuration files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mqplug._model.errors import ConfigError

CONFIG_FILE_SUFFIXES: Final = (".toml", ".yaml", ".yml")
_NAME: Final = re.compile(r"\w[\w.-]*")
_PATH: Final = re.compile(r"[^@:]*[/\\][^@:]*|[.~][^@:]*|[A-Za-z]:\\[^@:]*")


def target_of(text: str) -> str | Path:
    """Return a URL, or the path of a configuration file, from one text."""
    path = Path(text)
    return path if "://" not in text and path.suffix in CONFIG_FILE_SUFFIXES else text


def check_backend_name(target: str) -> None:
    """Raise ``ConfigError`` if this cannot be a backend's name, and say what to write instead."""
    if target.endswith(CONFIG_FILE_SUFFIXES) and "@" not in target:
        raise ConfigError(f"{target!r} is a file, not a backend", fix=f"Write connect(Path({target!r}))")
    if _PATH.fullmatch(target):
        raise ConfigError(f"{target!r} is a path, not a backend", fix=store_at(target))
    if not _NAME.fullmatch(target):  # not shown: it may be a URL without its beginning, and hold a secret
        text = "the target is neither the name of a backend nor a URL"
        raise ConfigError(text, fix="Write connect('kafka://host:9092'), or connect('rocksmq', path='./mq')")


def store_at(path: str) -> str:
    """Return the advice for a path that may be a RocksMQ store, where a backend or a file was expected."""
    return (
        f"For a store of RocksMQ write connect('rocksmq', path={path!r}), or the URL "
        f"rocksmq://{Path(path).absolute().as_posix()}; a configuration file ends in .toml or .yaml"
    )
