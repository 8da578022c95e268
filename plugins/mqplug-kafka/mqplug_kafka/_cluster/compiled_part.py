"""The compiled part, mqplug-kafka-native: whether it reads and sends for a connection, and if not, why.

Only this module imports it. What stands against it is kept for reading and for sending apart. Some of that holds for
one connection, as its settings do; what a check against the plain client found holds for the whole process.
"""

from __future__ import annotations

from importlib.metadata import version
from threading import Lock
from types import ModuleType
from typing import Any, Literal

import confluent_kafka

from mqplug import ConfigError
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._settings import KafkaSettings

NAME = "mqplug-kafka-native"
Use = Literal["reads", "sends"]
USES: tuple[Use, ...] = ("reads", "sends")
NEEDED = {"reads": "Reader", "sends": "Sender"}
"""What the compiled part has for each use."""

CLIENT_ONLY = {"default.topic.config", "plugin.library.paths", "sasl.oauthbearer.metadata.authentication.type"}
"""Options that confluent-kafka itself understands, not its library."""

MAJOR_VERSION = 2
"""Of librdkafka, whose functions and structures the compiled part was written for."""

_lock = Lock()
_found: tuple[ModuleType | None, str] | None = None  # the compiled part, or why there is none
_proven: set[Use] = set()
_refused: dict[Use, str] = {}  # why the plain client does it in this process, whatever a connection says
_told: set[str] = set()  # reasons that were logged


class CompiledPart:
    """What one connection uses of the compiled part."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._is_required = settings.native == "required"
        self._unfit = _unfit(settings)
        self._module = None if self._unfit else _module()
        for use in USES:
            if (reason := self._reason(use)) is not None:
                self._tell(use, reason)

    def usable(self, use: Use) -> bool:
        """Return whether the compiled part does it. Raise ``ConfigError`` if it must, but cannot."""
        reason = self._reason(use)
        if reason is not None and self._is_required:
            raise _missing(use, reason)
        return reason is None

    @property
    def module(self) -> Any:
        """The compiled part, for a use that is usable."""
        return self._module

    @property
    def is_required(self) -> bool:
        """Whether the plain client must not take its place."""
        return self._is_required

    def is_proven(self, use: Use) -> bool:
        """Return whether its first results were as those of the plain client."""
        return use in _proven

    def prove(self, use: Use) -> None:
        """Note that its first results were as those of the plain client."""
        _proven.add(use)

    def refuse(self, use: Use, reason: str) -> None:
        """Leave it to the plain client from now on, in this process."""
        with _lock:
            _refused.setdefault(use, reason)
        self._tell(use, reason)

    def notes(self) -> list[str]:
        """Return sentences that say what reads and what sends."""
        reasons = {use: self._reason(use) for use in USES}
        here = f"{NAME} {version(NAME)} over librdkafka {_library()}" if None in reasons.values() else ""
        said = {use: here if why is None else f"confluent-kafka: {why}" for use, why in reasons.items()}
        if said["reads"] == said["sends"]:
            return [f"reads and sends through {said['reads']}"]
        return [f"{use} through {what}" for use, what in said.items()]

    def _reason(self, use: Use) -> str | None:
        if self._unfit:
            return self._unfit
        if self._module is None:
            return _found[1] if _found else "it was not looked for"
        if not hasattr(self._module, NEEDED[use]):
            return f"{NAME} {version(NAME)} does not do that"
        return _refused.get(use)

    def _tell(self, use: Use, reason: str) -> None:
        """Log once why the plain client does it, unless that was chosen. Raise if it must not."""
        if self._is_required:
            raise _missing(use, reason)
        with _lock:
            is_new = reason not in _told
            _told.add(reason)
        if is_new and reason not in _CHOSEN:
            logger.warning("confluent-kafka %s, not %s: %s", use, NAME, reason)


_OFF = "native is 'off'"
_NOT_INSTALLED = f"{NAME} is not installed"
_CHOSEN = {_OFF, _NOT_INSTALLED}


def _unfit(settings: KafkaSettings) -> str:
    """Return why these settings leave all to the plain client, or nothing."""
    if settings.native == "off":
        return _OFF
    alien = sorted(CLIENT_ONLY & settings.librdkafka.keys())
    return f"librdkafka has {alien[0]!r}, which only confluent-kafka understands" if alien else ""


def _module() -> ModuleType | None:
    """Return the compiled part, imported once."""
    global _found
    with _lock:
        if _found is None:
            _found = _look()
        return _found[0]


def _look() -> tuple[ModuleType | None, str]:
    """Return the compiled part, or why there is none."""
    try:
        import mqplug_kafka_native
    except ModuleNotFoundError as error:
        if error.name == "mqplug_kafka_native":
            return None, _NOT_INSTALLED
        return None, f"{NAME} was installed without its compiled part ({error})"
    except ImportError as error:
        return None, f"{NAME} cannot be used: {error}"
    taken, own = mqplug_kafka_native.library_version(), _library()
    if taken != own:
        return None, f"{NAME} found librdkafka {taken}, and confluent-kafka has {own}"
    if int(own.partition(".")[0]) != MAJOR_VERSION:
        return None, f"{NAME} knows librdkafka {MAJOR_VERSION}, and this is {own}"
    return mqplug_kafka_native, ""


def _library() -> str:
    return confluent_kafka.libversion()[0]


def _missing(use: Use, reason: str) -> ConfigError:
    return ConfigError(
        f"native is 'required', but confluent-kafka {use}: {reason}",
        fix=f"Run pip install 'mqplug-kafka[native]' where {NAME} can be built, or say native='auto'",
    )
