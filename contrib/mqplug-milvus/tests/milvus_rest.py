"""Drives a real Milvus over its REST interface, which needs no client."""

from __future__ import annotations

import json
import time
from urllib.request import ProxyHandler, Request, build_opener

DIMENSION = 4
_open = build_opener(ProxyHandler({})).open
PATIENCE_S = 60


class MilvusRest:
    """One collection of a Milvus: numbered rows with a vector, a number and a text."""

    def __init__(self, address, collection="things"):
        self.address = address
        self.collection = collection

    def create(self):
        """Create the collection, with automatic keys."""
        self._ask("collections/create", dimension=DIMENSION)

    def drop(self):
        """Drop the collection."""
        self._ask("collections/drop")

    def insert(self, numbers):
        """Insert a row for each number, and return their keys."""
        rows = [{"vector": vector(number), "number": number, "text": f"ü{number}"} for number in numbers]
        return [int(key) for key in self._ask("insert", data=rows)["insertIds"]]

    def delete(self, keys):
        """Delete rows."""
        self._ask("delete", id=list(keys))

    def rows(self):
        """Return all rows by key."""
        found = {}
        while True:
            last = max(found, default=-1)
            asked = self._ask("query", filter=f"id > {last}", limit=100, outputFields=["*"])
            if not asked:
                return found
            found |= {int(row["id"]): row | {"id": int(row["id"])} for row in asked}

    def wait_for(self, number):
        """Wait until the query answers so many rows, and return them."""
        end = time.monotonic() + PATIENCE_S
        while len(found := self.rows()) != number:
            assert time.monotonic() < end, len(found)
            time.sleep(0.1)
        return found

    def _ask(self, path, **body):
        """Ask, again and again while Milvus is still loading or has just started."""
        end = time.monotonic() + PATIENCE_S
        while True:
            request = Request(
                f"{self.address}/v1/vector/{path}",
                json.dumps({"collectionName": self.collection, **body}).encode(),
                {"Content-Type": "application/json"},
            )
            with _open(request, timeout=PATIENCE_S) as answer:
                said = json.load(answer)
            if said["code"] == 200:
                return said["data"]
            if time.monotonic() > end or path == "insert":
                raise AssertionError(said)
            time.sleep(0.2)


def vector(number):
    """Return a vector that a float keeps exactly."""
    return [number / 8, number, -number, 0.5]
