"""The broker's admin interface, for what tests do behind mqplug's back."""

from __future__ import annotations

import json
from urllib.request import ProxyHandler, Request, build_opener


class Rest:
    """The broker's admin interface, for what tests do behind mqplug's back."""

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
        """End the time that is given to groups for what lies before a position, as the broker does before it trims."""
        ledger, entry, _ = before.coordinates
        number = before.log.partition if self.partitioned(topic) else -1
        last = {"ledgerId": ledger, "entryId": entry - 1, "partitionIndex": number}
        path = self.path(self.log(topic, before.log.partition))
        for group in self.cursors(topic, before.log.partition):
            self.ask("POST", f"{path}/subscription/{group}/expireMessages", last)

    def enforce(self, topic, partition=0):
        """Have the retention looked after now."""
        self.ask("POST", f"{self.path(self.log(topic, partition))}/trim")

    def cursors(self, topic, partition=0):
        """The subscriptions of a partition."""
        return self.ask("GET", f"{self.path(self.log(topic, partition))}/internalStats")["cursors"]

    def partitioned(self, topic):
        """Whether a topic has partitions."""
        return self.ask("GET", f"{self.path(topic)}/partitions")["partitions"] > 0

    def log(self, topic, partition):
        """The topic that holds the messages of a partition: the topic itself, if it has none."""
        return f"{topic}-partition-{partition}" if self.partitioned(topic) else topic

    def path(self, topic):
        return f"persistent/public/default/{topic}"
