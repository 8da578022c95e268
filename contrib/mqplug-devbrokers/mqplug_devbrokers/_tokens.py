"""JSON web tokens, without a library: signed ones for Pulsar, and a token endpoint for Kafka's OAUTHBEARER."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, unquote

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

TOKEN_LIFETIME_S = 3600.0


def json_web_token(key: bytes, subject: str, lifetime: float | None) -> str:
    """Return a token for a subject that expires in `lifetime` seconds: None is never, a negative one has expired."""
    now = int(time.time())
    claims: dict[str, object] = {"sub": subject, "iat": now}
    if lifetime is not None:
        claims["exp"] = int(now + lifetime)
    signed = ".".join(
        _encoded(json.dumps(part, separators=(",", ":")).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims)
    )
    return f"{signed}.{_encoded(hmac.digest(key, signed.encode(), hashlib.sha256))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class TokenServer:
    """An OIDC provider with only the grant `client_credentials`: `with TokenServer({"alice": "secret"}) as tokens:`.

    The tokens are not signed, which a `KafkaServer(security=…)` accepts: a client's id is the user's name.
    """

    def __init__(self, clients: Mapping[str, str], *, lifetime: float = TOKEN_LIFETIME_S) -> None:
        self.clients = dict(clients)
        self.lifetime = lifetime
        self.issued: list[str] = []
        """The names of the users that received tokens, in order."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"tokens": self}))
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), name="token-server", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URL of the token endpoint."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/token"

    def issue(self, user: str) -> str:
        """Return a token for a user, whether or not it is a client."""
        self.issued.append(user)
        return unsigned_token(user, self.lifetime)

    def close(self) -> None:
        """Stop answering. Closing twice is harmless."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def unsigned_token(user: str, lifetime: float) -> str:
    """Return a JSON web token for `user` without a signature, valid for `lifetime` seconds from now."""
    now = time.time()
    claims = {"sub": user, "scope": "kafka", "iat": int(now), "exp": int(now + lifetime)}
    header = {"alg": "none", "typ": "JWT"}
    return ".".join([*(_encoded(json.dumps(part).encode()) for part in (header, claims)), ""])


class _Handler(BaseHTTPRequestHandler):
    tokens: ClassVar[TokenServer]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        client, secret = self._credentials(form)
        if form.get("grant_type") != "client_credentials":
            self._answer(400, {"error": "unsupported_grant_type"})
        elif self.tokens.clients.get(client) != secret:
            self._answer(401, {"error": "invalid_client", "error_description": "unknown client or wrong secret"})
        else:
            token = self.tokens.issue(client)
            answer = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.tokens.lifetime)}
            self._answer(200, answer)

    def _credentials(self, form: Mapping[str, str]) -> tuple[str, str]:
        """Return a client's id and secret from the header or the form."""
        kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "basic":
            return form.get("client_id", ""), form.get("client_secret", "")
        client, _, secret = base64.b64decode(encoded).decode().partition(":")
        return unquote(client), unquote(secret)

    def _answer(self, status: int, answer: Mapping[str, object]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
