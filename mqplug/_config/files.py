"""Finding and reading configuration files, and distinguishing their paths from URLs and names of backends.

Readers from other distributions read the files of other programs. A reader is an entry point of the group
``mqplug.config_readers``: a module or an object with ``reads`` and ``read``. Readers are asked about each YAML file in
the order of their names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from mqplug._config.layers import Document, ForeignLayer, Layer, Unset
from mqplug._model.errors import ConfigError
from mqplug._plugins.discovery import points_of_group
from mqplug._settings.fields import Text

CONFIG_FILE_NAMES: Final = ("mqplug.toml", "mqplug.yaml")
CONFIG_FILE_VARIABLE: Final = "MQPLUG_CONFIG"
CONFIG_FILE_SUFFIXES: Final = (".toml", ".yaml", ".yml")
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")
_NAME: Final = re.compile(r"\w[\w.-]*")
_PATH: Final = re.compile(r"[^@:]*[/\\][^@:]*|[.~][^@:]*|[A-Za-z]:\\[^@:]*")


def target_of(text: str) -> str | Path:
    """Return a URL, or the path of a configuration file, from one text."""
    path = Path(text)
    return path if "://" not in text and path.suffix in CONFIG_FILE_SUFFIXES else text


def check_backend_name(target: str) -> None:
    """Raise ``ConfigError``, with what to write instead, if this cannot be a backend's name."""
    if target.endswith(CONFIG_FILE_SUFFIXES) and "@" not in target:
        raise ConfigError(f"{target!r} is a file, not a backend", fix=f"Write connect(Path({target!r}))")
    if _PATH.fullmatch(target):
        raise ConfigError(f"{target!r} is a path, not a backend", fix=store_at(target))
    if not _NAME.fullmatch(target):  # not shown: it may be a URL without its beginning, with a secret
        text = "the target is neither the name of a backend nor a URL"
        raise ConfigError(text, fix="Write connect('kafka://host:9092'), or connect('rocksmq', path='./mq')")


def store_at(path: str) -> str:
    """Return the advice for a path that may be a RocksMQ store, given where a backend or a file was expected."""
    return (
        f"For a store of RocksMQ write connect('rocksmq', path={path!r}), or the URL "
        f"rocksmq://{Path(path).absolute().as_posix()}; a configuration file ends in .toml or .yaml"
    )


READERS_GROUP: Final = "mqplug.config_readers"
PUBLISHED_READERS: Final = {"milvus": "mqplug-milvus"}  # by a word in the names of files


class ConfigReader(Protocol):
    """A reader of another program's configuration files."""

    def reads(self, name: str, content: Mapping[str, Any]) -> bool:
        """Return whether a file belongs to that program, by its name or its content."""
        ...

    def read(self, source: str, content: Mapping[str, Any], variables: Mapping[str, str]) -> ForeignLayer:
        """Return the settings in a file and the environment, under mqplug's names. Raise ``ConfigError`` for errors."""
        ...


def reader_for(name: str, content: Mapping[str, Any]) -> ConfigReader | None:
    """Return the reader of a file, or None if it is mqplug's own. Raise ``ConfigError`` for a missing reader."""
    for point in sorted(points_of_group(READERS_GROUP), key=lambda each: each.name):
        reader: ConfigReader = point.load()
        if reader.reads(name, content):
            return reader
    for word, distribution in PUBLISHED_READERS.items():
        if word in name.lower():
            raise ConfigError(f"{name} is read by {distribution}", fix=f"Run pip install {distribution}")
    return None


def find_config_file(variables: Mapping[str, str]) -> Path | None:
    """Return the file that ``MQPLUG_CONFIG`` names, or the working directory's, or the user's own, or None."""
    if variables.get(CONFIG_FILE_VARIABLE):
        return Path(variables[CONFIG_FILE_VARIABLE]).expanduser()
    return next(config_files(variables), None)


def config_files(variables: Mapping[str, str]) -> Iterator[Path]:
    """Yield the configuration files of the working directory, then the user's own."""
    return (path for path in _candidates(variables) if path.is_file())


def user_directory(variables: Mapping[str, str]) -> Path | None:
    """Return the directory of the user's own files, or None without a home directory."""
    base = variables.get("XDG_CONFIG_HOME")
    if base or variables.get("HOME"):
        return (Path(base) if base else Path(variables["HOME"], ".config")) / "mqplug"
    return None


def read_config_file(path: os.PathLike[str], variables: Mapping[str, str]) -> Layer:
    """Return the settings in a file, with its variable references replaced."""
    source = os.fspath(path)
    content = _parsed(Path(path), source)
    if not isinstance(content, Mapping):
        raise ConfigError(f"{source} does not contain a table of settings", fix="Write sections, such as kafka")
    filled = _filled(content, variables)
    reader = None if Path(path).suffix.lower() == ".toml" else reader_for(Path(path).name, filled)
    return Document(source, filled, file=True) if reader is None else reader.read(source, filled, variables)


def _candidates(variables: Mapping[str, str]) -> Iterator[Path]:
    yield from map(Path, CONFIG_FILE_NAMES)
    home = user_directory(variables)
    if home is not None:
        yield from (home / name for name in CONFIG_FILE_NAMES)


def _parsed(path: Path, source: str) -> Any:
    if path.is_dir():
        raise ConfigError(f"{source} is a directory, not a configuration file", fix=store_at(source))
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    else:
        return _parse(text, path.suffix.lower(), source)
    raise ConfigError(f"{source} cannot be read: {reason}", fix="Check the path, or MQPLUG_CONFIG if that names it")


def _parse(text: str, suffix: str, source: str) -> Any:
    if suffix == ".toml":
        return _parse_toml(text, source)
    if suffix in {".yaml", ".yml"}:
        return _parse_yaml(text, source)
    raise ConfigError(f"{source} is neither .toml nor .yaml", fix="Give it the suffix of its format")


def _parse_toml(text: str, source: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        reason = str(error)
    raise ConfigError(f"{source} is not TOML: {reason}", fix="Fix that line")


def _parse_yaml(text: str, source: str) -> Any:
    from importlib.util import find_spec

    if find_spec("yaml") is None:
        raise ConfigError(f"reading {source} needs PyYAML", fix="Run pip install 'mqplug[yaml]', or write TOML")
    import yaml

    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:  # not chained: its text shows the line, which may contain a secret
        mark = getattr(error, "problem_mark", None)
    where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
    raise ConfigError(f"{source} is not YAML{where}", fix="Fix that line")


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    """Return the value with ``${NAME}`` replaced in all strings; ``$${`` becomes ``${``."""
    if isinstance(value, Mapping):
        return {key: _filled(inner, variables) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, variables) for inner in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    names = [found[1] for found in _REFERENCE.finditer(value) if found[1] is not None]
    missing = next((name for name in names if name not in variables), None)
    if missing is not None:
        return Unset(missing)
    return Text(_REFERENCE.sub(lambda found: "${" if found[1] is None else variables[found[1]], value))
