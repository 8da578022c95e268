"""The broker's admin interface, for actions that tests take without mqplug."""

from __future__ import annotations

import json
from urllib.request import ProxyHandler, Request, build_opener


class Rest:
    """Requests to the broker's admin interface."""

    def __init__(self, admin_url):
        self._url = f"{admin_url}/admin/v2"
        self._opener = build_opener(ProxyHandler({}))

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self._url}/{path}", data, {"Content-Type": "application/json"}, method=method)
        with self._opener.open(request, timeout=30) as response:
            answer = response.read()
        return json.loads(answer) if answer else None

    def expire(self, topic, before):
        """Expire all messages before a position for all groups, as the broker does before it trims."""
        ledger, entry, _ = before.coordinates
        number = before.log.partition if self.partitioned(topic) else -1
        last = {"ledgerId": ledger, "entryId": entry - 1, "partitionIndex": number}
        path = self.path(self.log(topic, before.log.partition))
        for group in self.cursors(topic, before.log.partition):
            self.ask("POST", f"{path}/subscription/{group}/expireMessages", last)

    def enforce(self, topic, partition=0):
        """Make the broker enforce retention now."""
        self.ask("POST", f"{self.path(self.log(topic, partition))}/trim")

    def cursors(self, topic, partition=0):
        """Return the subscriptions of a partition."""
        return self.ask("GET", f"{self.path(self.log(topic, partition))}/internalStats")["cursors"]

    def partitioned(self, topic):
        """Return whether a topic has partitions."""
        return self.ask("GET", f"{self.path(topic)}/partitions")["partitions"] > 0

    def log(self, topic, partition):
        """Return the topic that holds a partition's messages: the topic itself if it has no partitions."""
        return f"{topic}-partition-{partition}" if self.partitioned(topic) else topic

    def path(self, topic):
        return f"persistent/public/default/{topic}"
