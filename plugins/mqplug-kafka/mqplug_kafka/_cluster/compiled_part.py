"""The compiled part, mqplug-kafka-native: whether it reads and sends for a connection, and if not, why.

Only this module imports it. Reasons against it are kept separately for reading and for sending. Reasons in the settings
hold for one connection; reasons that a comparison with the plain client found hold for the whole process.
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
"""The class of the compiled part for each use."""

CLIENT_ONLY = {"default.topic.config", "plugin.library.paths", "sasl.oauthbearer.metadata.authentication.type"}
"""Options that confluent-kafka itself understands, and not librdkafka."""

MAJOR_VERSION = 2
"""The major version of librdkafka for whose functions and structures the compiled part was written."""

_lock = Lock()
_found: tuple[ModuleType | None, str] | None = None  # the compiled part, or the reason why it is missing
_proven: set[Use] = set()
_refused: dict[Use, str] = {}  # reasons for the plain client in the whole process, whatever the settings are
_logged: set[str] = set()


class CompiledPart:
    """One connection's use of the compiled part."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._is_required = settings.native == "required"
        self._unfit = _unfit(settings)
        self._module = None if self._unfit else _module()
        for use in USES:
            if (reason := self._reason(use)) is not None:
                self._log_once(use, reason)

    def usable(self, use: Use) -> bool:
        """Return whether the compiled part is used. Raise ``ConfigError`` if it is required but cannot be used."""
        reason = self._reason(use)
        if reason is not None and self._is_required:
            raise _missing(use, reason)
        return reason is None

    @property
    def module(self) -> Any:
        """The compiled part. Only for a use that ``usable`` allows."""
        return self._module

    @property
    def is_required(self) -> bool:
        """Whether the plain client may not replace it."""
        return self._is_required

    def is_proven(self, use: Use) -> bool:
        """Return whether its first results were equal to those of the plain client."""
        return use in _proven

    def prove(self, use: Use) -> None:
        """Note that its first results were equal to those of the plain client."""
        _proven.add(use)

    def refuse(self, use: Use, reason: str) -> None:
        """Use the plain client from now on, in this whole process."""
        with _lock:
            _refused.setdefault(use, reason)
        self._log_once(use, reason)

    def notes(self) -> list[str]:
        """Return which part reads and which part sends, as sentences for an operator."""
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
            return _found[1] if _found else "it was never imported"
        if not hasattr(self._module, NEEDED[use]):
            return f"{NAME} {version(NAME)} has no {NEEDED[use]}"
        return _refused.get(use)

    def _log_once(self, use: Use, reason: str) -> None:
        """Log once why the plain client is used, unless by choice. Raise if the compiled part is required."""
        if self._is_required:
            raise _missing(use, reason)
        with _lock:
            is_new = reason not in _logged
            _logged.add(reason)
        if is_new and reason not in _CHOSEN:
            logger.warning("confluent-kafka %s instead of %s: %s", use, NAME, reason)


_OFF = "native is 'off'"
_NOT_INSTALLED = f"{NAME} is not installed"
_CHOSEN = {_OFF, _NOT_INSTALLED}


def _unfit(settings: KafkaSettings) -> str:
    """Return why these settings need the plain client; empty if they do not."""
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
    """Return the compiled part, or the reason why it is missing."""
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
        return None, f"{NAME} found librdkafka {taken}, but confluent-kafka has {own}"
    if int(own.partition(".")[0]) != MAJOR_VERSION:
        return None, f"{NAME} supports librdkafka {MAJOR_VERSION}, not {own}"
    return mqplug_kafka_native, ""


def _library() -> str:
    return confluent_kafka.libversion()[0]


def _missing(use: Use, reason: str) -> ConfigError:
    return ConfigError(
        f"native is 'required', but confluent-kafka {use}: {reason}",
        fix=f"Run pip install 'mqplug-kafka[native]' where {NAME} can be built, or set native='auto'",
    )
