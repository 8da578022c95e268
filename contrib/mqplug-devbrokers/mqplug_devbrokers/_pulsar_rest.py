"""The part of Pulsar's HTTP interface that a server needs: a message, topics, ledgers and access rights."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from mqplug_devbrokers._errors import BrokerError

NAMESPACE = "public/default"
STRING_SCHEMA = json.dumps({"name": "", "schema": "", "type": "STRING", "properties": {}})


def topic_path(topic: str) -> str:
    """Return the path of a topic, which may have a short name or a full one."""
    name = topic.removeprefix("persistent://")
    parts = name.split("/", 2) if name != topic else [*NAMESPACE.split("/"), topic]
    if len(parts) != 3:
        raise BrokerError(f"{topic!r} is not a topic; use orders, or persistent://public/default/orders")
    return "persistent/" + "/".join(quote(part, safe="") for part in parts)


def parent_topic(topic: str) -> str:
    """Return the topic that a partition belongs to; any other topic as it is."""
    return re.sub(r"-partition-\d+$", "", topic)


class PulsarRest:
    """Requests to one broker on loopback, with a token if it needs one."""

    def __init__(self, url: str, timeout: float, token: str | None = None) -> None:
        self._url = url
        self._timeout = timeout
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._opener = build_opener(ProxyHandler({}))  # loopback never needs the user's proxy

    def create_topic(self, name: str) -> None:
        """Create a topic without partitions, unless it exists."""
        self.ask("PUT", topic_path(name), allowed=HTTPStatus.CONFLICT)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, even if it is in use."""
        self.ask("DELETE", f"{topic_path(name)}?force=true")

    def produce(self, topic: str, value: str) -> None:
        """Append one message and wait until it is stored."""
        body = {"producerName": "mqplug", "valueSchema": STRING_SCHEMA, "messages": [{"payload": value}]}
        results = json.loads(self._ask("POST", f"topics/{topic_path(topic)}", body))["messagePublishResults"]
        if len(results) != 1 or results[0].get("errorCode") or not results[0].get("messageId"):
            raise BrokerError(f"the server refused to produce: {results}")

    def ledgers(self, topic: str) -> list[int]:
        """Return the numbers of the ledgers of a topic without partitions, or of one partition."""
        stats = self.ask("GET", f"{topic_path(topic)}/internalStats")
        return [each["ledgerId"] for each in stats["ledgers"]]

    def partitions(self, topic: str) -> list[str]:
        """Return the topics that hold the messages: the partitions, or the topic itself if it has none."""
        if parent_topic(topic) != topic:
            return [topic]
        count = self.ask("GET", f"{topic_path(topic)}/partitions")["partitions"]
        return [f"{topic}-partition-{number}" for number in range(count)] or [topic]

    def ask(self, method: str, path: str, body: Any = None, allowed: int = 0) -> Any:
        """Make an admin request, and return its answer, or None if it is empty or has the `allowed` status."""
        answer = self._ask(method, f"admin/v2/{path}", body, allowed)
        return json.loads(answer) if answer else None

    def _ask(self, method: str, path: str, body: Any = None, allowed: int = 0) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}/{path}", data, self._headers, method=method)  # noqa: S310  http, on loopback
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                answer: bytes = response.read()
                return answer
        except HTTPError as error:
            with error:
                reason = error.read().decode(errors="replace")[:300]
            if error.code == allowed:
                return b""
            raise BrokerError(f"{method} /{path} was answered with {error.code}: {reason}") from error
        except HTTPException as error:
            raise BrokerError(f"{method} /{path} got no HTTP answer: {error}") from error
