"""Options, before anything is asked of a broker."""

from __future__ import annotations

import pytest
from spark_options import options

from mqplug import ConfigError
from mqplug_spark._options.read_options import parse_options


def test_defaults_read_all_that_is_stored() -> None:
    """Without more options a read goes from the earliest to the latest, and fails on loss."""
    made = options()
    assert (made.starting, made.ending) == ("earliest", "latest")
    assert (made.include_headers, made.fail_on_data_loss, made.poll_timeout) == (False, True, 120.0)


def test_names_of_options_have_no_case() -> None:
    """Option names are the same in any case, and so are their words."""
    assert options(INCLUDEHEADERS="True", startingoffsets="Latest") == options(
        includeHeaders="true", startingOffsets="latest"
    )


def test_several_topics() -> None:
    """Topics are separated by commas; spaces around them and repetitions do not count."""
    made = parse_options({"url": "kafka://localhost", "subscribe": "orders, audit,orders"})
    assert made.topics == ("orders", "audit")


def test_topic_is_another_name_for_subscribe() -> None:
    """The option ``topic`` means what ``subscribe`` means."""
    assert parse_options({"url": "kafka://localhost", "topic": "orders"}).topics == ("orders",)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"url": "kafka://localhost"}, "'subscribe' is missing"),
        ({"url": "kafka://localhost", "topic": ""}, "an empty topic name"),
        ({"url": "kafka://localhost", "subscribe": "orders,,audit"}, "an empty topic name"),
        ({"url": "kafka://localhost", "subscribe": "orders", "topic": "orders"}, "are the same option"),
        ({"url": "kafka://localhost", "path": "orders"}, "load\\(\\) was given a path"),
    ],
)
def test_what_is_missing_or_contradicts_is_named(given: dict[str, str], says: str) -> None:
    """A missing or contradictory option is a ConfigError that names it."""
    with pytest.raises(ConfigError, match=says):
        parse_options(given)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOfsets": "earliest"}, "'startingofsets'.*Did you mean 'startingOffsets'"),
        ({"assing": "{}"}, "no option .assing."),
        ({"includeHeaders": "yes"}, "includeHeaders must be true or false, not 'yes'"),
        ({"failOnDataLoss": ""}, "failOnDataLoss must be true or false"),
        ({"pollTimeoutMs": "0"}, "pollTimeoutMs must be a number of milliseconds"),
        ({"pollTimeoutMs": "-5"}, "pollTimeoutMs must be a number of milliseconds"),
        ({"pollTimeoutMs": "1.5"}, "pollTimeoutMs must be a number of milliseconds"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], says: str) -> None:
    """An unknown option, or a wrong value, is a ConfigError that names it and what would be right."""
    with pytest.raises(ConfigError, match=says):
        options(**given)


def test_the_url_is_not_shown() -> None:
    """The URL may hold a password, so the options do not show it."""
    made = parse_options({"url": "kafka://me:hunter2@localhost", "subscribe": "orders"})
    assert "hunter2" not in repr(made)
