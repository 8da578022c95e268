"""Real Kafka and Pulsar servers for tests: one node each, from their published artifacts.

    with KafkaServer() as kafka:
        client = mqplug.connect(kafka.url)

Needs Java 17 and, for the first download, Maven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqplug_devbrokers._public import *  # noqa: F403  # pyright: ignore[reportWildcardImportFromLibrary]
    from mqplug_devbrokers._public import __all__ as __all__
else:  # hidden from type checkers, which would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Load the public names when the first is used: each pytest run imports this package for its fixtures."""
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from mqplug_devbrokers import _public

        try:
            return getattr(_public, name)
        except AttributeError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    from mqplug_devbrokers import _public

    return sorted({*globals(), *_public.__all__})
