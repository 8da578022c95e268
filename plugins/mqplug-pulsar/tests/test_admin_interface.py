"""Answers of Pulsar's admin interface that are not what was asked for."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

import mqplug
from mqplug_pulsar import PulsarSettings
from mqplug_pulsar._cluster.admin_interface import AdminInterface, AdminRefused
from mqplug_pulsar._cluster.credentials import Credentials


@contextmanager
def answering(answer):
    """An admin interface that gives this answer to everything, with status 200."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        settings = PulsarSettings(admin_url=f"http://127.0.0.1:{server.server_port}")
        try:
            yield AdminInterface(settings, Credentials(settings))
        finally:
            server.shutdown()


def test_statistics_that_are_an_error():
    """A broker that has no bookies says so with status 200: it is an error that may be tried again, without Java."""
    reason = "\n --- An unexpected error ---\n\nMessage: org.apache.X.ManagedLedgerException: Not enough bookies\n"
    with (
        answering({"reason": reason}) as admin,
        pytest.raises(mqplug.ConnectError, match="Not enough bookies") as caught,
    ):
        admin.stats("persistent://public/default/t", 5)
    assert isinstance(caught.value.__cause__, AdminRefused)
    assert "org.apache" not in str(caught.value)
