"""A token provider as a separate distribution would ship it: its module and its entry points."""

from __future__ import annotations

import time

answers = []
"""Answers to calls: the last one is what the next call returns or raises."""
calls = []
"""The options that each call got."""


def provide(settings):
    """Return or raise the last of ``answers``."""
    calls.append(dict(settings.token_options))
    if isinstance(answers[-1], Exception):
        raise answers[-1]
    return answers[-1]


def valid_for(token, seconds):
    """Return a provider's answer: the token and the time at which it expires."""
    return token, time.time() + seconds


def install(folder):
    """Write the entry points into a folder, which must be on ``sys.path``."""
    info = folder / "pulsar_token_provider-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pulsar-token-provider\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[mqplug.pulsar_tokens]\ntest-cloud = pulsar_token_provider:provide\n"
        "broken = pulsar_token_provider:missing\nno-function = pulsar_token_provider:calls\n"
    )
