"""The part of Pulsar's HTTP interface that one acknowledged message needs, without a client library."""

from __future__ import annotations

import json
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from mqplug_devbrokers._errors import BrokerError

NAMESPACE = "persistent/public/default"
STRING_SCHEMA = json.dumps({"name": "", "schema": "", "type": "STRING", "properties": {}})


class PulsarRest:
    """Requests to one broker on loopback."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._opener = build_opener(ProxyHandler({}))  # loopback is never behind the user's proxy

    def create_topic(self, name: str) -> None:
        """Create a topic without partitions, unless it exists."""
        self._ask("PUT", f"admin/v2/{NAMESPACE}/{name}", allowed=HTTPStatus.CONFLICT)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, even if it is in use."""
        self._ask("DELETE", f"admin/v2/{NAMESPACE}/{name}?force=true")

    def produce(self, topic: str, value: str) -> None:
        """Append one message and wait until it is stored."""
        body = {"producerName": "mqplug", "valueSchema": STRING_SCHEMA, "messages": [{"payload": value}]}
        results = json.loads(self._ask("POST", f"topics/{NAMESPACE}/{topic}", body))["messagePublishResults"]
        if len(results) != 1 or results[0].get("errorCode") or not results[0].get("messageId"):
            raise BrokerError(f"the server refused to produce: {results}")

    def _ask(self, method: str, path: str, body: Any = None, allowed: int = 0) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(f"{self._url}/{path}", data, headers, method=method)  # noqa: S310  http, on loopback
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
