"""The asyncio consumer: what it delivers, when a message counts as delivered, and the effect of cancellation."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from checked_loops import at_once, connected, filled, run, values

import mqplug
import mqplug.aio

pytestmark = pytest.mark.python

# receiving


def test_an_idle_receive_returns_none() -> None:
    """A receive whose timeout expires returns None, and the next receive still gets new messages."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out, mq.consumer("orders", group="g") as orders:
                assert await orders.receive(timeout=0.02) is None
                assert len(await orders.receive_many(10, timeout=0)) == 0
                await out.send(b"late")
                assert await values(orders, 1) == [b"late"]

    run(story())


def test_a_poll_takes_what_is_there() -> None:
    """A receive with a timeout of 0 returns a message that is already available."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1)
            async with mq.consumer("orders", start=mqplug.EARLIEST) as orders:
                assert (await orders.receive(timeout=0)).value == b"0"
                assert await orders.receive(timeout=0) is None

    run(story())


@pytest.mark.parametrize(
    ("most", "error"), [(0, ValueError), (True, TypeError), ("1", TypeError)], ids=["none", "bool", "text"]
)
def test_receive_many_takes_a_number(most: object, error: type[Exception]) -> None:
    """An invalid number of messages is refused at once."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.consumer("orders", group="g") as orders:
                with pytest.raises(error, match="receive_many"):
                    await orders.receive_many(most)  # type: ignore[arg-type]
                with pytest.raises(ValueError, match="timeout"):
                    await orders.receive(timeout=-1)

    run(story())


def test_batches_give_all_messages() -> None:
    """Batches have at most the requested number of messages, and together contain all messages in order."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1000)
            async with mq.consumer("orders", start=mqplug.EARLIEST, until=mqplug.LATEST) as orders:
                sizes, found = set(), []
                async for batch in orders.batches(300):
                    sizes.add(len(batch))
                    found += batch.values
                assert max(sizes) <= 300
                assert found == [b"%d" % number for number in range(1000)]

    run(story())


def test_receive_many_after_receive_goes_on_there() -> None:
    """Messages that a receive fetched and did not return come with the next batch, and then in the iteration."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 10)
            async with mq.consumer("orders", group="g", until=mqplug.LATEST) as orders:
                assert await values(orders, 2) == [b"0", b"1"]
                assert list((await orders.receive_many(3, timeout=5)).values) == [b"2", b"3", b"4"]
                assert [message.value async for message in orders] == [b"%d" % number for number in range(5, 10)]

    run(story())


def test_iteration_ends_at_stop() -> None:
    """After stop, the iteration ends after the message in hand, which may still be acked."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 10)
            async with mq.consumer("orders", group="g") as orders:
                taken = []
                async for message in orders:
                    taken.append(message)
                    if len(taken) == 3:
                        orders.stop()
                assert len(taken) == 3
                await orders.ack_through(taken[-1])
                await orders.commit()
                assert (await orders.committed())[0].coordinates == (3,)

    run(story())


def test_stop_ends_a_waiting_iteration() -> None:
    """An iteration that waits for messages ends when another task calls stop."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.consumer("orders", group="g") as orders, asyncio.TaskGroup() as tasks:

                async def drain() -> list[object]:
                    return [message async for message in orders]

                draining = tasks.create_task(drain())
                await asyncio.sleep(0.01)
                orders.stop()
            assert draining.result() == []

    run(story())


def test_close_wakes_a_waiting_receive() -> None:
    """Closing a consumer makes a waiting receive raise Closed, and ends an iteration."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            orders = await mq.consumer("orders", group="g")
            waiting = asyncio.ensure_future(orders.receive())
            assert await asyncio.wait({waiting}, timeout=0.05) == (set(), {waiting})
            await orders.close()
            with pytest.raises(mqplug.Closed):
                await waiting

    run(story())


def test_two_tasks_may_not_receive_at_once() -> None:
    """A second task that calls receive is refused at once, and the first one gets the message."""

    async def story() -> None:
        async with connected() as mq:
            await mq.create_topic("orders")
            async with mq.producer("orders") as out, mq.consumer("orders", group="g") as orders:
                waiting = asyncio.ensure_future(orders.receive())
                await asyncio.sleep(0.01)
                with pytest.raises(mqplug.ConcurrentUse):
                    await orders.receive(timeout=0)
                await out.send(b"first")
                assert (await waiting).value == b"first"

    run(story())


# cancellation


def test_cancelled_in_the_moment_of_arrival() -> None:
    """A receive that is cancelled just as its message arrives does not take it."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 3)
            async with mq.consumer("orders", group="g") as orders:
                waiting = asyncio.ensure_future(orders.receive())
                await at_once(lambda: orders.sync._fetcher.current is not None)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                assert (await orders.position())[0].coordinates == (0,)
                assert await values(orders, 3) == [b"0", b"1", b"2"]

    run(story())


def test_members_come_and_go_and_receives_are_cancelled() -> None:
    """However members join, leave and cancel, every message is handled, and the group ends after the last one."""
    chance = random.Random(11)

    async def member(mq: mqplug.aio.AsyncClient, seen: set[bytes | None], most: int) -> None:
        async with mq.consumer("orders", group="g") as orders:
            for _ in range(most):
                try:
                    async with asyncio.timeout(chance.choice([0.001, 0.01, 0.05])):
                        message = await orders.receive()
                except TimeoutError:
                    continue
                assert message is not None
                seen.add(message.value)
                await orders.ack(message)

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 600, partitions=3)
            seen: set[bytes | None] = set()
            while len(seen) < 600:
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(3):
                        tasks.create_task(member(mq, seen, chance.randint(1, 120)))
            assert set((await mq.lag("orders", group="g")).values()) == {0}

    run(story())


def test_a_timeout_of_asyncio_ends_a_receive() -> None:
    """asyncio.timeout around an iteration ends it in time, and the consumer continues."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 2)
            async with mq.producer("orders") as out, mq.consumer("orders", group="g") as orders:
                found: list[bytes | None] = []

                async def drain() -> None:
                    async with asyncio.timeout(0.1):
                        async for message in orders:
                            found.append(message.value)

                with pytest.raises(TimeoutError):
                    await drain()
                await out.send(b"2")
                assert found + await values(orders, 1) == [b"0", b"1", b"2"]

    run(story())


def test_an_error_of_a_cancelled_fetch_is_not_lost() -> None:
    """An error from a callback during a cancelled receive is raised by the next receive."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1)
            called = asyncio.Event()

            def on_assigned(logs: object) -> None:
                called.set()
                raise LookupError("mine")

            async with mq.consumer("orders", group="g", on_assigned=on_assigned) as orders:
                waiting = asyncio.ensure_future(orders.receive())
                await called.wait()
                waiting.cancel()
                await asyncio.wait({waiting})
                assert await values(orders, 1) == [b"0"]
                with pytest.raises(LookupError, match="mine"):
                    await orders.receive(timeout=5)

    run(story())


# fetched messages that are not delivered yet


def test_the_position_is_behind_what_the_caller_has() -> None:
    """Messages that were fetched and not delivered do not move the position."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 10)
            async with mq.consumer("orders", group="g") as orders:
                await values(orders, 4)
                assert (await orders.position())[0].coordinates == (4,)
                assert (await orders.statistics()).received == 4

    run(story())


def test_what_waits_here_cannot_be_acked() -> None:
    """Acking a fetched message before its delivery is refused; ack_through acks only delivered messages."""

    async def story() -> None:
        async with connected() as mq:
            ids = await filled(mq, 10)
            async with mq.consumer("orders", group="g") as orders:
                await values(orders, 4)
                with pytest.raises(mqplug.InvalidMessageId):
                    await orders.ack(ids[5])
                await orders.ack_through(ids[3])
                await orders.commit()
                assert (await orders.committed())[0].coordinates == (4,)

    run(story())


def test_a_seek_drops_what_waits_here() -> None:
    """A message that was fetched before a seek is not delivered after it."""

    async def story() -> None:
        async with connected() as mq:
            ids = await filled(mq, 10)
            async with mq.consumer("orders", group="g") as orders:
                await values(orders, 2)
                await orders.seek(ids[7])
                assert await values(orders, 3) == [b"7", b"8", b"9"]

    run(story())


def test_a_seek_drops_what_a_cancelled_receive_fetched() -> None:
    """A seek discards the messages that a cancelled receive fetched."""

    async def story() -> None:
        async with connected() as mq:
            ids = await filled(mq, 10)
            async with mq.consumer("orders", group="g") as orders:
                waiting = asyncio.ensure_future(orders.receive())
                await at_once(lambda: orders.sync._fetcher.current is not None)
                waiting.cancel()
                await asyncio.wait({waiting})
                await orders.seek(ids[8])
                assert await values(orders, 2) == [b"8", b"9"]

    run(story())


def test_a_seek_during_a_receive() -> None:
    """A seek by another task does not wait for a waiting receive, which then gets the message at the new position."""

    async def story() -> None:
        async with connected() as mq:
            ids = await filled(mq, 3)
            async with mq.consumer("orders", start=mqplug.LATEST) as orders:
                waiting = asyncio.ensure_future(orders.receive())
                await asyncio.sleep(0.02)
                await orders.seek(ids[1])
                assert (await waiting).value == b"1"

    run(story())


def test_what_a_partition_that_goes_left_here_is_not_delivered() -> None:
    """After a hand-over, the first member delivers nothing more of the partition that it gave up."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 200, partitions=2)
            gone: set[int] = set()

            async def on_revoked(logs: list[mqplug.Log]) -> None:
                gone.update(log.partition for log in logs)

            async with mq.consumer("orders", group="g", on_revoked=on_revoked) as first:
                await first.receive(timeout=5)
                async with mq.consumer("orders", group="g") as second:
                    newcomer = await second.receive(timeout=10)
                    assert gone == {newcomer.partition}
                    taken = [await first.receive(timeout=5) for _ in range(50)]
                    assert newcomer.partition not in {message.partition for message in taken}

    run(story())


def test_a_pause_holds_back_what_waits_here() -> None:
    """A paused partition delivers nothing, and continues where it stopped after resume."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 10)
            async with mq.consumer("orders", group="g") as orders:
                await values(orders, 2)
                await orders.pause(0)
                assert [each.waits_for for each in await orders.state()] == ["paused"]
                assert await orders.receive(timeout=0.05) is None
                await orders.resume()
                assert await values(orders, 8) == [b"%d" % number for number in range(2, 10)]

    run(story())


# settling


def test_auto_ack_acks_what_the_caller_has_seen_through() -> None:
    """With auto_ack, the message in hand and fetched messages are not acked; earlier messages are."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 10)
            async with mq.consumer("orders", group="g", auto_ack=True) as orders:
                await values(orders, 3)
            assert await mq.lag("orders", group="g") == {0: 8}

    run(story())


def test_auto_ack_and_a_batch_in_hand() -> None:
    """With auto_ack, a batch is acked only when the next one is requested."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 10)
            async with mq.consumer("orders", group="g", auto_ack=True) as orders:
                await orders.receive_many(4, timeout=5)
                await orders.receive_many(4, timeout=5)
            assert await mq.lag("orders", group="g") == {0: 6}

    run(story())


def test_a_nacked_message_comes_again_first() -> None:
    """In ordered mode, a nacked message comes again before the fetched ones."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 4)
            async with mq.consumer("orders", group="g") as orders:
                first = await orders.receive(timeout=5)
                await orders.nack(first, delay=0)
                again = await orders.receive(timeout=5)
                assert (again.value, again.attempt) == (b"0", 2)
                await orders.ack(again)
                assert await values(orders, 3) == [b"1", b"2", b"3"]

    run(story())


def test_handling_settles() -> None:
    """The end of a handling block acks; an error in it nacks the message, and the consumer continues."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 2)
            async with mq.consumer("orders", group="g", retry=mqplug.Retry(None, delay=0)) as orders:
                async with orders.handling(await orders.receive(timeout=5)):
                    pass
                with pytest.raises(KeyError):
                    async with orders.handling(await orders.receive(timeout=5)):
                        raise KeyError
                async with orders.handling(await orders.receive(timeout=5)) as again:
                    assert (again.value, again.attempt) == (b"1", 2)
            assert await mq.lag("orders", group="g") == {0: 0}

    run(story())


def test_handling_that_is_cancelled_settles_nothing() -> None:
    """A handling block that is cancelled neither acks nor nacks."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1)
            async with mq.consumer("orders", group="g") as orders:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01), orders.handling(await orders.receive(timeout=5)):
                        await asyncio.sleep(10)
                assert (await orders.statistics()).returned == 0
            assert await mq.lag("orders", group="g") == {0: 1}

    run(story())


# callbacks


def test_callbacks_run_in_the_loop() -> None:
    """Plain and async callbacks run in the loop's thread, before the first message of the reported partitions."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1)
            told: list[tuple[str, list[int], bool]] = []

            def note(what: str, logs: list[mqplug.Log]) -> None:
                here = threading.current_thread() is threading.main_thread()
                told.append((what, [log.partition for log in logs], here))

            async def on_assigned(logs: list[mqplug.Log]) -> None:
                await asyncio.sleep(0)
                note("assigned", logs)

            consumer = mq.consumer(
                "orders", group="g", on_assigned=on_assigned, on_revoked=lambda logs: note("revoked", logs)
            )
            async with consumer as orders:
                assert await values(orders, 1) == [b"0"]
                assert told == [("assigned", [0], True)]

    run(story())


def test_a_callback_may_seek_and_commit() -> None:
    """A callback that seeks or commits on its own consumer does not deadlock."""

    async def story() -> None:
        async with connected() as mq:
            ids = await filled(mq, 10)

            async def on_assigned(logs: list[mqplug.Log]) -> None:
                await orders.seek(ids[6], timeout=5)
                await orders.commit(timeout=5)
                with pytest.raises(mqplug.ConcurrentUse):
                    await orders.receive()

            async with mq.consumer("orders", group="g", on_assigned=on_assigned) as orders:
                assert await values(orders, 4) == [b"6", b"7", b"8", b"9"]

    run(story())


def test_a_callback_that_waits_does_not_hold_the_loop() -> None:
    """While a callback waits, other tasks run, and their sends complete."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1)
            told = asyncio.Event()
            async with mq.producer("orders") as out:

                async def on_assigned(logs: list[mqplug.Log]) -> None:
                    await out.send(b"from inside")
                    await told.wait()

                async with mq.consumer("orders", group="g", on_assigned=on_assigned) as orders:
                    waiting = asyncio.ensure_future(values(orders, 2))
                    assert await asyncio.wait({waiting}, timeout=0.05) == (set(), {waiting})
                    told.set()
                    assert await waiting == [b"0", b"from inside"]

    run(story())


def test_what_a_callback_raises_comes_out_of_receive() -> None:
    """An error in a callback is raised by the next receive, once."""

    async def story() -> None:
        async with connected() as mq:
            await filled(mq, 1)

            async def on_assigned(logs: list[mqplug.Log]) -> None:
                raise LookupError("mine")

            async with mq.consumer("orders", group="g", on_assigned=on_assigned) as orders:
                assert await values(orders, 1) == [b"0"]
                with pytest.raises(LookupError, match="mine"):
                    await orders.receive(timeout=5)
                assert await orders.receive(timeout=0) is None

    run(story())
