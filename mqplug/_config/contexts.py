"""Contexts: backends that the command line knows by name, from ``[context.NAME]`` of ``mqplug.toml``.

The file in the working directory overrides the user's own. ``mqplug context use`` keeps its choice next to the latter.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from mqplug._config.files import CONFIG_FILE_VARIABLE, config_files, read_config_file, user_directory
from mqplug._config.layers import Document
from mqplug._model.errors import ConfigError
from mqplug._settings.settings import nearest

CONTEXT_VARIABLE: Final = "MQPLUG_CONTEXT"
CHOICE_FILE_NAME: Final = "context"
_TABLE: Final = "context"
_DECIDING: Final = (CONFIG_FILE_VARIABLE, "MQPLUG_URL", "MQPLUG_BACKEND", "MQPLUG_MODE")


@attrs.frozen
class Context:
    """A named backend: its settings, as a separate layer."""

    name: str
    file: str
    document: Document = attrs.field(repr=False)


def contexts(variables: Mapping[str, str]) -> dict[str, Context]:
    """Return all contexts by name."""
    named = variables.get(CONFIG_FILE_VARIABLE)
    files = [*([Path(named).expanduser()] if named else []), *config_files(variables)]
    found: dict[str, Context] = {}
    for path in files:
        layer = read_config_file(path, variables)
        if isinstance(layer, Document):
            for name, content in layer.content.get(_TABLE, {}).items():
                document = Document(f"context {name} in {path}", content)
                found.setdefault(name, Context(name, str(path), document))
    return dict(sorted(found.items()))


def context_in_force(name: str | None, variables: Mapping[str, str]) -> Context | None:
    """Return the context of this name, or the chosen one; None if none was chosen."""
    wanted = name or chosen_context(variables)
    if wanted is None:
        return None
    known = contexts(variables)
    if wanted not in known:
        where = "" if name else f", which {_who_chose(variables)} names"
        raise ConfigError(
            f"unknown context {wanted!r}{where}",
            fix=nearest(wanted, list(known)) if known else f"Write [context.{wanted}] with a url into mqplug.toml",
        )
    return known[wanted]


def chosen_context(variables: Mapping[str, str]) -> str | None:
    """Return the name in ``MQPLUG_CONTEXT``, or the one chosen with ``mqplug context use``, or None.

    Variables that name a backend or a file override the latter, because they are closer to the call.
    """
    if variables.get(CONTEXT_VARIABLE):
        return variables[CONTEXT_VARIABLE]
    path = choice_file(variables)
    if path is None or any(variables.get(each) for each in _DECIDING) or not path.is_file():
        return None
    return path.read_text(encoding="utf-8").strip() or None


def choose_context(name: str | None, variables: Mapping[str, str]) -> Path:
    """Keep the choice of a context for later commands, or remove it. Return its file."""
    path = choice_file(variables)
    if path is None:
        raise ConfigError("no home directory to keep the choice in", fix=f"Set {CONTEXT_VARIABLE} instead")
    if name is None:
        path.unlink(missing_ok=True)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{name}\n", encoding="utf-8")
    return path


def choice_file(variables: Mapping[str, str]) -> Path | None:
    """Return the file that keeps the choice of ``mqplug context use``."""
    home = user_directory(variables)
    return None if home is None else home / CHOICE_FILE_NAME


def _who_chose(variables: Mapping[str, str]) -> str:
    return CONTEXT_VARIABLE if variables.get(CONTEXT_VARIABLE) else str(choice_file(variables))
