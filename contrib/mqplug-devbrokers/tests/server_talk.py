"""How tests talk to the servers without a vendor's client: by the small clients with which devbrokers starts them."""

from __future__ import annotations

from mqplug_devbrokers._kafka_wire import KafkaWire, view
from mqplug_devbrokers._pulsar_rest import PulsarRest

__all__ = ["PROBE_TOPIC", "KafkaWire", "PulsarRest", "view"]

PROBE_TOPIC = "mqplug-devbrokers-ready"
"""The topic with which a server proves that it is ready. It is deleted then."""
