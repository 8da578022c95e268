"""Personalities of a store: full, or with the capabilities and quirks of Kafka or Pulsar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from mqplug.memory._numbering import Dense, Entries, Marked
from mqplug.spi import Capabilities, GroupPosition
from mqplug.spi.groups import tidy

if TYPE_CHECKING:
    from mqplug.memory._partition import Partition

KAFKA_ACKED_RANGES_MAX = 200  # acked ranges that fit into the metadata of a commit on Kafka

StorePosition = Callable[["GroupPosition | None", GroupPosition, "Partition"], GroupPosition]
"""A function of the stored position and the committed one, which returns the position to store."""


@attrs.frozen(kw_only=True)
class Personality:
    """The behaviour of a store.

    ``incarnations``: a recreated topic differs from the one before. ``early_errors``: a seek fails if the topic is
    gone; otherwise the next poll fails. ``reports_loss``: the first poll reports that retention removed messages;
    otherwise a reader learns of it with the next message, and a group never does. ``whole_entries``: if a message of an
    entry is not acked, the whole entry is delivered again. ``takes_over``: the store moves partitions between members
    silently.
    """

    name: str
    capabilities: Capabilities
    numbering: type[Dense | Entries] = Dense
    store: StorePosition
    incarnations: bool = True
    publish_time: bool = False
    early_errors: bool = True
    reports_loss: bool = True
    whole_entries: bool = False
    takes_over: bool = False


def _exactly(stored: GroupPosition | None, wanted: GroupPosition, partition: Partition) -> GroupPosition:
    """Return the committed position with all its acked ranges."""
    return tidy(wanted)


def _as_far_as_fits(stored: GroupPosition | None, wanted: GroupPosition, partition: Partition) -> GroupPosition:
    """Return the committed position with the nearest acked ranges, because Kafka's commit metadata has room for few."""
    wanted = tidy(wanted)
    return attrs.evolve(wanted, acked=wanted.acked[:KAFKA_ACKED_RANGES_MAX])


def _by_entry(stored: GroupPosition | None, wanted: GroupPosition, partition: Partition) -> GroupPosition:
    """Return the position with only acks of whole entries. As on Pulsar, a commit never removes earlier acks."""
    if stored is not None:
        retained = [each for each in stored.acked if each[1] >= partition.low]
        wanted = GroupPosition(max(stored.position, wanted.position), (*retained, *wanted.acked))
    return attrs.evolve(wanted, acked=tuple(partition.whole_entries(tidy(wanted).acked)))


FULL: Final = Personality(
    name="full",
    store=_exactly,
    capabilities=Capabilities(
        alter_topic=True, delete_topic=True, list_topics=True, topic_patterns=True, add_partitions=True, groups=True,
        durable_groups=True, ordered=True, exclusive=True, shared=True, key_shared=True, nack=True, ack_timeout=True,
        seek_time=True, trim=True, retention=True, pause_resume=True, null_payload=True, headers=True, keys=True,
        partitions=True, timestamps_producer=True, individual_ack=True, cumulative_ack=True, commit=True,
        assignment_events=True, header_duplicates=True, idempotent_producer=True, batch_index=True, time_index=True,
        count_exact=True, multi_client=True, exactly_once=True, staged_ingest=True, transactions=True,
        durable_delivery_count=True, advance=True,
    ),
)  # fmt: skip

KAFKA: Final = Personality(
    name="kafka",
    numbering=Marked,
    store=_as_far_as_fits,
    early_errors=False,
    capabilities=Capabilities(
        alter_topic=True, delete_topic=True, list_topics=True, topic_patterns=True, add_partitions=True, groups=True,
        durable_groups=True, ordered=True, seek_time=True, trim=True, retention=True, pause_resume=True,
        null_payload=True, headers=True, keys=True, partitions=True, timestamps_producer=True, individual_ack=True,
        cumulative_ack=True, commit=True, assignment_events=True, header_duplicates=True, idempotent_producer=True,
        batch_index=True, time_index=True, multi_client=True, acked_ranges_max=KAFKA_ACKED_RANGES_MAX,
        transactions=True, advance=True,
    ),
)  # fmt: skip

PULSAR: Final = Personality(
    name="pulsar",
    numbering=Entries,
    store=_by_entry,
    incarnations=False,
    publish_time=True,
    reports_loss=False,
    whole_entries=True,
    takes_over=True,
    capabilities=Capabilities(
        alter_topic=True, delete_topic=True, list_topics=True, topic_patterns=True, add_partitions=True, groups=True,
        durable_groups=True, ordered=True, exclusive=True, shared=True, key_shared=True, nack=True, ack_timeout=True,
        seek_time=True, retention=True, pause_resume=True, null_payload=True, headers=True, keys=True, partitions=True,
        timestamps_producer=True, individual_ack=True, ack_granularity="entry", cumulative_ack=True, commit=True,
        header_duplicates=True, batch_index=True, time_index=True, multi_client=True,
        message_max_bytes=5 * 1024 * 1024 - 10 * 1024,
        header_max_bytes=1024 * 1024,
    ),
)  # fmt: skip

PERSONALITIES: Final[Mapping[str, Personality]] = {each.name: each for each in (FULL, KAFKA, PULSAR)}
