"""The API for tools around mqplug: its command line, its test kit, readers of other programs' configuration.

An application needs none of this. In short::

    from mqplug import introspection

    for plugin in introspection.inspect_plugins():
        print(plugin.name, plugin.distribution)
    print(introspection.diagnose("kafka://localhost:9092", timeout=5).connects)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mqplug._client.diagnosis import (
        Diagnosis as Diagnosis,
        diagnose as diagnose,
        effective_settings as effective_settings,
    )
    from mqplug._config.contexts import (
        choose_context as choose_context,
        chosen_context as chosen_context,
        context_in_force as context_in_force,
        contexts as contexts,
    )
    from mqplug._config.files import ConfigReader as ConfigReader, target_of as target_of
    from mqplug._config.layers import (
        ForeignLayer as ForeignLayer,
        Given as Given,
        LeftAlone as LeftAlone,
        Unset as Unset,
    )
    from mqplug._config.plan import Target as Target, plan as plan, sources as sources
    from mqplug._config.schema import schema_of as schema_of
    from mqplug._plugins.discovery import registered as registered
    from mqplug._plugins.inspection import (
        commands_of as commands_of,
        inspect_plugins as inspect_plugins,
        settings_class as settings_class,
    )
    from mqplug._settings.fields import Text as Text, address_fields as address_fields
    from mqplug._settings.secrets import secrets_of as secrets_of
    from mqplug._settings.settings import Complaint as Complaint, config_error as config_error, quoted as quoted
    from mqplug._settings.urls import shown as shown, split_url as split_url, without_logins as without_logins

_HOMES: Final = {
    "_client.diagnosis": "Diagnosis diagnose effective_settings",
    "_config.contexts": "choose_context chosen_context context_in_force contexts",
    "_config.files": "ConfigReader target_of",
    "_config.layers": "ForeignLayer Given LeftAlone Unset",
    "_config.plan": "Target plan sources",
    "_config.schema": "schema_of",
    "_plugins.discovery": "registered",
    "_plugins.inspection": "commands_of inspect_plugins settings_class",
    "_settings.fields": "Text address_fields",
    "_settings.secrets": "secrets_of",
    "_settings.settings": "Complaint config_error quoted",
    "_settings.urls": "shown split_url without_logins",
}
_HOME_OF: Final = dict(sorted((name, home) for home, names in _HOMES.items() for name in names.split()))

__all__ = list(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll] - type checkers read the imports above


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Load a name from its module on first use, so that a command line starts quickly."""
        if name not in _HOME_OF:
            raise AttributeError(f"module 'mqplug.introspection' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"mqplug.{_HOME_OF[name]}"), name)
        return found
