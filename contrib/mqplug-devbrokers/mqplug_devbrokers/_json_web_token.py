"""Signed tokens (JWT, HS256), without a library."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time


def json_web_token(key: bytes, subject: str, lifetime: float | None) -> str:
    """Return a token for a subject that expires in `lifetime` seconds: None is never, and below zero it has expired."""
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
