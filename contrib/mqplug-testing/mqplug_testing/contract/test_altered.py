"""TOP: topics whose settings are altered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final

from mqplug import Client, ConfigError, TopicInfo, TopicNotFound
from mqplug_testing._case_tools.bench import Bench
from mqplug_testing._case_tools.memory_use import MIB
from mqplug_testing._case_tools.registry import Registry

case = Registry()

NEEDS: Final = ("alter_topic", "retention")
NO_SUCH_OPTION: Final = {"no.such.option": "1"}
WRONG: Final[tuple[tuple[type[Exception], dict[str, Any]], ...]] = (
    (TypeError, {}),
    (TypeError, {"options": {}}),
    (TypeError, {"options": [1]}),
    (TypeError, {"retention": "1d"}),
    (TypeError, {"retention_bytes": 1.5}),
    (ValueError, {"retention": 7}),
    (ValueError, {"retention": timedelta(seconds=-1)}),
    (ValueError, {"retention_bytes": -1}),
    (ConfigError, {"retention": 7200, "options": NO_SUCH_OPTION}),
)


def _limits(info: TopicInfo) -> tuple[float | None, int | None]:
    return info.retention, info.retention_bytes


def _limited(bench: Bench) -> str:
    """Create a topic that keeps an hour and ten mebibytes."""
    topic = bench.owned(bench.name())
    bench.client.create_topic(topic, retention=3600, retention_bytes=10 * MIB)
    return topic


@case("TOP-22", needs=NEEDS)
def test_altered(bench: Bench) -> None:
    """Only what is given is altered, the answer and every client's next ``describe`` show it, and messages stay."""
    topic, other = _limited(bench), bench.connect()
    ids = bench.fill(topic, 3)
    changes: tuple[tuple[Client, dict[str, Any], tuple[float, int]], ...] = (
        (bench.client, {"retention": 7200}, (7200, 10 * MIB)),
        (other, {"retention_bytes": 20 * MIB}, (7200, 20 * MIB)),
        (other, {"retention": timedelta(minutes=90), "retention_bytes": 5 * MIB}, (5400, 5 * MIB)),
    )
    for client, given, expected in changes:
        info = client.alter_topic(topic, **given)
        bench.equal((info.name, _limits(info)), (topic, expected))
        for each in (bench.client, other):
            bench.equal(each.describe(topic), info)
    bench.equal([message.id for message in bench.read(topic)], ids)


@case("TOP-23", needs=NEEDS)
def test_refused(bench: Bench) -> None:
    """Nothing at all, nonsense, and an option that the backend does not know are refused, and alter nothing."""
    topic, missing = _limited(bench), bench.name()
    before = bench.client.describe(topic)
    for error, given in WRONG:
        with bench.raises(error):
            bench.client.alter_topic(topic, **given)
    bench.equal(bench.client.describe(topic), before)
    with bench.raises(ConfigError):
        bench.client.create_topic(missing, options=NO_SUCH_OPTION)
    with bench.raises(TopicNotFound):
        bench.client.alter_topic(missing, retention=7200)
    with bench.raises(TopicNotFound):
        bench.client.partitions(missing)


@case("TOP-24", needs=(*NEEDS, "persistent"), hooks=("kill", "start"), timeout=180)
def test_killed_after(bench: Bench) -> None:
    """A backend that is killed right after a topic was altered comes back with the topic as altered."""
    assert bench.harness.kill is not None and bench.harness.start is not None
    topic = _limited(bench)
    info = bench.client.alter_topic(topic, retention=7200)
    bench.harness.kill()
    with bench.away():
        bench.harness.start()
    bench.equal(bench.client.describe(topic), info)


@case("TOP-25", needs=NEEDS, timeout=180)
def test_at_the_same_time(bench: Bench) -> None:
    """Clients that alter a topic at the same time all return, and the topic is as one of them left it."""
    topic, clients = _limited(bench), [bench.client, bench.connect()]
    for number in range(1, 4):
        wanted = [number * 3600, number * 3600 + 1800]
        with ThreadPoolExecutor(len(clients)) as pool:
            calls = [
                pool.submit(client.alter_topic, topic, retention=seconds)
                for client, seconds in zip(clients, wanted, strict=True)
            ]
            bench.equal([_limits(call.result())[1] for call in calls], [10 * MIB] * 2)
        left = {_limits(client.describe(topic)) for client in clients}
        bench.that(left in [{(seconds, 10 * MIB)} for seconds in wanted], f"one of {wanted} seconds, not {left}")
