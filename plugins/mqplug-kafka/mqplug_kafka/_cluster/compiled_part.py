"""The compiled part, mqplug-kafka-native: what it needs of the client. Only this module imports it."""

from __future__ import annotations

from types import ModuleType
from typing import Final

import confluent_kafka

from mqplug.spi.compiled import CompiledPart, CompiledUse, Use
from mqplug_kafka._cluster.log_throttle import logger
from mqplug_kafka._settings import KafkaSettings

NEEDED: Final[dict[Use, str]] = {"reads": "Reader", "sends": "Collector"}
"""The class of the compiled part for each use."""

CLIENT_ONLY: Final = {"default.topic.config", "plugin.library.paths", "sasl.oauthbearer.metadata.authentication.type"}
"""Options that confluent-kafka itself understands, and not librdkafka."""

MAJOR_VERSION: Final = 2
"""The major version of librdkafka for whose functions and structures the compiled part was written."""


def new_part() -> CompiledPart:
    """Return the compiled part, of which nothing is known yet."""
    return CompiledPart("mqplug-kafka-native", "confluent-kafka", _load, logger, NEEDED)


def _load() -> ModuleType:
    import mqplug_kafka_native

    taken, own = mqplug_kafka_native.library_version(), library_version()
    if taken != own:
        raise ImportError(f"it found librdkafka {taken}, but confluent-kafka has {own}")
    if int(own.partition(".")[0]) != MAJOR_VERSION:
        raise ImportError(f"it supports librdkafka {MAJOR_VERSION}, not {own}")
    return mqplug_kafka_native


PART = new_part()


def compiled_use(settings: KafkaSettings) -> CompiledUse:
    """Return the use of the compiled part that these settings allow. Raise ``ConfigError`` if they require more."""
    alien = sorted(CLIENT_ONLY & settings.librdkafka.keys())
    unfit = f"librdkafka has {alien[0]!r}, which only confluent-kafka understands" if alien else ""
    return CompiledUse(PART, settings.native, unfit)


def library_version() -> str:
    """Return the version of librdkafka that confluent-kafka uses."""
    return confluent_kafka.libversion()[0]
