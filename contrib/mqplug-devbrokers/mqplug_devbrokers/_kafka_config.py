"""The configuration of a Kafka node: the template, the node's own listeners, and the settings of the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqplug_devbrokers._tools import fill_in

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LISTENER_SETTINGS = ("listeners", "advertised.listeners", "listener.security.protocol.map")


@dataclass(frozen=True)
class Node:
    """A node's number, and the controller port of each node of its cluster, its own included."""

    number: int
    controllers: Mapping[int, int]


def properties(node: Node, ports: Mapping[str, int], data: Path, settings: Mapping[str, str]) -> str:
    """Return the text of `server.properties`. Listeners in `settings` are added to the node's own."""
    merged = joined(_listening(node, ports), settings)
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in node.controllers.items())
    return fill_in("kafka-server.properties", merged, NODE=node.number, VOTERS=voters, DATA=data)


def joined(first: Mapping[str, str], then: Mapping[str, str]) -> dict[str, str]:
    """Return both settings. The listeners of the second are added, its other settings override the first."""
    lists = {key: ",".join(filter(None, [first.get(key), then.get(key)])) for key in LISTENER_SETTINGS}
    return {**first, **then, **{key: value for key, value in lists.items() if value}}


def _listening(node: Node, ports: Mapping[str, int]) -> dict[str, str]:
    """Return the node's own listeners.

    Kafka sends its clients to the address that it advertises for the listener they used. So the network that can be
    cut has a listener of its own.
    """
    plain, behind, relay = (f"127.0.0.1:{ports[name]}" for name in ("client", "behind", "relay"))
    controller = f"CONTROLLER://127.0.0.1:{node.controllers[node.number]}"
    return {
        "listeners": f"PLAINTEXT://{plain},{controller},RELAYED://{behind}",
        "advertised.listeners": f"PLAINTEXT://{plain},RELAYED://{relay}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,RELAYED:PLAINTEXT",
    }
