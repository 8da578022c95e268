"""Harnesses of the contract kit over the tests' brokers: one that all workers share, or one that a test may disturb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import attrs
from pulsar_rest import Rest

import mqplug
from mqplug_testing import Harness, harness_for

CODECS = ("lz4", "zlib", "zstd", "snappy")
NEEDS_BATCHES = "zlib"


@contextmanager
def shared(server, query="") -> Iterator[Harness]:
    """Yield a harness with all hooks that disturb no other test; ``query`` adds settings, such as ``&batching=none``.

    Retention in Pulsar removes whole closed ledgers that no group needs any more: ``roll`` closes one.
    """
    rest = Rest(server.admin_url)
    codecs = [name for name in CODECS if name != NEEDS_BATCHES or "batching=none" not in query]

    def trim(client, topic, before):
        rest.expire(topic, before)
        server.trim(rest.log(topic, before.log.partition))

    with harness_for(server.url + query) as over_any_broker:
        yield attrs.evolve(
            over_any_broker,
            absent={},
            trim_before=trim,
            roll=lambda client, topic: server.unload(topic),
            unload=server.unload,
            codecs={name: partial(mqplug.connect, f"{server.url}{query}&compression={name}") for name in codecs},
            enforce=lambda client, topic: rest.enforce(topic),
        )


@contextmanager
def disturbed(server, query="") -> Iterator[Harness]:
    """Yield a harness with all hooks, including those that disturb the broker."""
    with shared(server, query) as harness:
        yield attrs.evolve(
            harness,
            process_behind_network=server.relayed_url + query,
            behind_network=lambda: mqplug.connect(server.relayed_url + query),
            **server.hooks(),
        )
