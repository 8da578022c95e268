"""Real Kafka and Pulsar servers for tests: one node each, from their published artifacts.

    with KafkaServer() as kafka:
        client = mqplug.connect(kafka.url)

Needs Java 17 and, for the first download, Maven.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mqplug_devbrokers._certificates import Certificate as Certificate, CertificateAuthority as CertificateAuthority
    from mqplug_devbrokers._errors import BrokerError as BrokerError, MissingTool as MissingTool
    from mqplug_devbrokers._jars import spark_kafka_jars as spark_kafka_jars
    from mqplug_devbrokers._kafka_security import KafkaSecurity as KafkaSecurity, SecuredListeners as SecuredListeners
    from mqplug_devbrokers._pulsar_security import PulsarSecurity as PulsarSecurity, SecuredPulsar as SecuredPulsar
    from mqplug_devbrokers._tokens import TokenServer as TokenServer
    from mqplug_devbrokers.kafka import KafkaServer as KafkaServer
    from mqplug_devbrokers.kafka_cluster import KafkaCluster as KafkaCluster
    from mqplug_devbrokers.milvus import MilvusServer as MilvusServer
    from mqplug_devbrokers.pulsar import PulsarServer as PulsarServer

_HOMES: Final = {
    "_certificates": "Certificate CertificateAuthority",
    "_errors": "BrokerError MissingTool",
    "_jars": "spark_kafka_jars",
    "_kafka_security": "KafkaSecurity SecuredListeners",
    "_pulsar_security": "PulsarSecurity SecuredPulsar",
    "_tokens": "TokenServer",
    "kafka": "KafkaServer",
    "kafka_cluster": "KafkaCluster",
    "milvus": "MilvusServer",
    "pulsar": "PulsarServer",
}
_HOME_OF: Final = dict(sorted((name, home) for home, names in _HOMES.items() for name in names.split()))

__all__ = list(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll] - type checkers read the imports above


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelt name

    def __getattr__(name: str) -> Any:
        """Load a public name when it is first used: each pytest run imports this package for its fixtures."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
