"""The public names of ``mqplug_devbrokers``."""

from __future__ import annotations

from mqplug_devbrokers._certificates import Certificate, CertificateAuthority
from mqplug_devbrokers._errors import BrokerError, MissingTool
from mqplug_devbrokers._jars import spark_kafka_jars
from mqplug_devbrokers._kafka_security import KafkaSecurity, SecuredListeners
from mqplug_devbrokers._pulsar_security import PulsarSecurity, SecuredPulsar
from mqplug_devbrokers._tokens import TokenServer
from mqplug_devbrokers.kafka import KafkaServer
from mqplug_devbrokers.kafka_cluster import KafkaCluster
from mqplug_devbrokers.milvus import MilvusServer
from mqplug_devbrokers.pulsar import PulsarServer

__all__ = [
    "BrokerError",
    "Certificate",
    "CertificateAuthority",
    "KafkaCluster",
    "KafkaSecurity",
    "KafkaServer",
    "MilvusServer",
    "MissingTool",
    "PulsarSecurity",
    "PulsarServer",
    "SecuredListeners",
    "SecuredPulsar",
    "TokenServer",
    "spark_kafka_jars",
]
