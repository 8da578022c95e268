"""A token provider as a distribution of its own would have it: its module and its entry points."""

from __future__ import annotations

import time

answers = []
"""What the next call returns or raises: the last of these."""
calls = []
"""The options of the calls."""


def provide(settings):
    """Return what a test ordered."""
    calls.append(dict(settings.token_options))
    if isinstance(answers[-1], Exception):
        raise answers[-1]
    return answers[-1]


def valid_for(token, seconds):
    """Return what a provider returns."""
    return token, time.time() + seconds


def install(folder):
    """Make entry points in a folder, which has to be on the path."""
    info = folder / "pulsar_token_provider-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pulsar-token-provider\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[mqplug.pulsar_tokens]\ntest-cloud = pulsar_token_provider:provide\n"
        "broken = pulsar_token_provider:missing\nno-function = pulsar_token_provider:calls\n"
    )
