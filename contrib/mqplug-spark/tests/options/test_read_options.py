"""Options of reads, before any request to a broker."""

from __future__ import annotations

import pytest
from spark_options import options

from mqplug import EARLIEST, LATEST, ConfigError
from mqplug_spark._options.bounds import Bound
from mqplug_spark._options.read_options import Kind, parse_options
from mqplug_spark._options.topic_selection import TopicSelection

URL = {"url": "kafka://localhost"}


def test_defaults_read_all_that_is_stored() -> None:
    """By default, a batch reads from the earliest to the latest, a stream from the latest, and both fail on loss."""
    made = options()
    assert (made.starting, made.ending) == (Bound("startingOffsets", EARLIEST), Bound("endingOffsets", LATEST))
    assert (made.include_headers, made.include_id, made.fail_on_data_loss) == (False, False, True)
    assert (made.poll_timeout, made.max_trigger_delay) == (120.0, 900.0)
    assert parse_options({**URL, "subscribe": "orders"}, "stream").starting == Bound("startingOffsets", LATEST)


def test_names_of_options_have_no_case() -> None:
    """Case is ignored in option names and in words that are values."""
    assert options(INCLUDEHEADERS="True", startingoffsets="Latest") == options(
        includeHeaders="true", startingOffsets="latest"
    )


@pytest.mark.parametrize(
    ("given", "selection"),
    [
        ({"subscribe": "orders, audit,orders"}, TopicSelection(("orders", "audit"))),
        ({"topic": "orders"}, TopicSelection(("orders",))),
        ({"subscribePattern": "orders-[0-9]+"}, TopicSelection(pattern="orders-[0-9]+")),
        ({"assign": '{"orders": [3, 1]}'}, TopicSelection(("orders",), partitions={"orders": (1, 3)})),
    ],
)
def test_topics_are_named_in_four_ways(given: dict[str, str], selection: TopicSelection) -> None:
    """Topics are selected by names with commas, ignoring spaces and duplicates; by a pattern; or by partition."""
    assert parse_options({**URL, **given}).topics == selection


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "no topic is selected: the option 'subscribe' is missing"),
        ({"topic": ""}, "topic has an empty topic name: ''"),
        ({"subscribe": "orders,,audit"}, "has an empty topic name"),
        ({"subscribe": "orders", "topic": "orders"}, "'subscribe' and 'topic' both select topics"),
        ({"subscribePattern": "a", "assign": "{}"}, "'subscribePattern' and 'assign' both select topics"),
        ({"subscribe": "orders", "path": "orders"}, "load\\(\\) was given a path"),
        ({"subscribePattern": "orders["}, "subscribePattern: 'orders\\[' is not a regular expression"),
        ({"assign": "orders"}, "assign is not JSON"),
        ({"assign": "{}"}, "assign names no topic"),
        ({"assign": '{"orders": {"0": 1}}'}, "'orders' must have a list of partitions"),
        ({"assign": '{"orders": []}'}, "'orders' must have a list of partitions"),
        ({"assign": '{"orders": [true]}'}, "'orders' must have a list of partitions"),
        ({"assign": '{"orders": [0, 0]}'}, "assign names a partition of 'orders' twice"),
        ({"assign": '{"orders": [0], "orders": [1]}'}, "assign names 'orders' twice"),
    ],
)
def test_what_is_missing_or_contradicts_is_named(given: dict[str, str], says: str) -> None:
    """A missing or contradictory option raises ConfigError with its name."""
    with pytest.raises(ConfigError, match=says):
        parse_options({**URL, **given})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOfsets": "earliest"}, "'startingofsets'.*Did you mean 'startingOffsets'"),
        ({"assing": "{}"}, "unknown option 'assing'. Did you mean 'assign'"),
        ({"includeHeaders": "yes"}, "includeHeaders must be true or false, not 'yes'"),
        ({"failOnDataLoss": ""}, "failOnDataLoss must be true or false"),
        ({"pollTimeoutMs": "0"}, "pollTimeoutMs must be a number of milliseconds"),
        ({"pollTimeoutMs": "-5"}, "pollTimeoutMs must be a number of milliseconds"),
        ({"kafkaConsumer.pollTimeoutMs": "1.5"}, "kafkaConsumer.pollTimeoutMs must be a number of milliseconds"),
        ({"pollTimeoutMs": "5", "kafkaConsumer.pollTimeoutMs": "5"}, "are the same option"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number greater than 0, not '0'"),
        ({"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition must be a whole number"),
        ({"maxOffsetsPerTrigger": "²"}, "maxOffsetsPerTrigger must be a whole number"),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "is 5, but maxOffsetsPerTrigger is only 4",
        ),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay must be a duration, not 'soon'"),
        ({"commitGroup": " "}, "commitGroup is empty"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "must be error or latest, not 'earliest'"),
        ({"startingOffsets": "checkpoint:"}, "names a checkpoint, but its path is missing"),
        ({"startingOffsets": "checkpoint:/c", "startingTimestamp": "1"}, "'startingTimestamp' is also given"),
        ({"fetchOffset.numRetries": "3"}, "'fetchOffset.numRetries' is not supported: requests are retried"),
        ({"groupIdPrefix": "me"}, "'groupIdPrefix' is not supported: reads use no group"),
        ({"startingOffsets": '{"audit": {"0": 1}}'}, "startingOffsets does not name the topic 'orders'"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], says: str) -> None:
    """An unknown option or a wrong value raises ConfigError, which says what would be right."""
    with pytest.raises(ConfigError, match=says):
        options(**given)


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        ("batch", "maxOffsetsPerTrigger", "5"),
        ("batch", "minOffsetsPerTrigger", "5"),
        ("batch", "maxTriggerDelay", "5m"),
        ("batch", "commitGroup", "me"),
        ("batch", "startingOffsets", "checkpoint:/c"),
        ("stream", "endingOffsets", "latest"),
        ("stream", "endingTimestamp", "5"),
        ("stream", "endingOffsetsByTimestamp", '{"orders": {"0": 5}}'),
    ],
)
def test_an_option_of_the_other_kind_of_read_is_refused(kind: Kind, name: str, text: str) -> None:
    """Batches refuse options of streams, and streams those of batches; a call for the schema accepts both."""
    given = {**URL, "subscribe": "orders", name: text}
    with pytest.raises(ConfigError, match=f"{name}.*(is an option of|which is for streams)"):
        parse_options(given, kind)
    assert parse_options(given)


def test_a_table_of_the_catalog_may_have_a_path() -> None:
    """CREATE TABLE ... USING mqplug passes a provider and the table's location, which are ignored."""
    given = {**URL, "subscribe": "orders"}
    table = {**given, "provider": "mqplug", "path": "file:/warehouse/orders"}
    assert parse_options(table) == parse_options(given)
    twice = {f"option.{name}": text for name, text in given.items()}
    assert parse_options({**table, **twice, "owner": "me"}) == parse_options(given)


def test_the_limits_of_a_stream() -> None:
    """Limits of a trigger, its delay, the group and the checkpoint are parsed for streams."""
    given = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "50", "maxTriggerDelay": "30s", "commitGroup": "me"}
    given |= {"startingOffsets": "checkpoint:/some/path", "minPartitions": "3", "maxRecordsPerPartition": "7"}
    made = parse_options({**URL, "subscribe": "orders", **given}, "stream")
    assert (made.min_offsets_per_trigger, made.max_offsets_per_trigger, made.max_trigger_delay) == (5, 50, 30.0)
    assert (made.commit_group, made.checkpoint) == ("me", "/some/path")
    assert (made.min_partitions, made.max_records_per_partition) == (3, 7)


def test_the_url_is_not_shown() -> None:
    """The options do not show the URL, which may hold a password."""
    made = parse_options({"url": "kafka://me:hunter2@localhost", "subscribe": "orders"})
    assert "hunter2" not in repr(made)
