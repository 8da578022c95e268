"""A token provider as a separate distribution would ship it: its module and its entry point."""

from __future__ import annotations

import base64
import json
import os
import time

faults = []
"""What the next calls raise, or return instead of a token. None stands for a good token."""
calls = []
"""The options of each call."""


def provide(settings):
    """Return a token for alice, or the fault that a test set."""
    calls.append(dict(settings.token_options))
    fault = faults[0] if faults else None
    if isinstance(fault, Exception):
        raise fault
    if fault is not None:
        return fault
    life = float(settings.token_options.get("life", "60"))
    now = time.time()
    claims = {"sub": "alice", "scope": "kafka", "iat": int(now), "exp": int(now + life)}
    return f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{encoded(claims)}.", now + life, "alice", {}


def encoded(part):
    """Return a part of a JSON web token. The token has no signature."""
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def install(folder):
    """Write entry points to a folder and return the path that finds them. ``broken`` names a missing function."""
    info = folder / "kafka_token_provider-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kafka-token-provider\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[mqplug.kafka_tokens]\ntest-cloud = kafka_token_provider:provide\n"
        "broken = kafka_token_provider:missing\nno-function = kafka_token_provider:calls\n"
    )
    return os.pathsep.join([str(folder), os.path.dirname(__file__)])  # noqa: PTH120
