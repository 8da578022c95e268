"""``mqplug verify``: checks each message of a topic, or compares two topics."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from mqplug_cli._client_options import ClientCommand, ClientOptions, client_options, named_client
from mqplug_cli._exit_codes import BEHIND, FAILED
from mqplug_cli._output import Output, output_option
from mqplug_cli._terminal import Progress

if TYPE_CHECKING:
    from mqplug_cli._measuring.verification import Verification

IGNORABLE = ("key", "headers", "timestamp")


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@click.option("--against", metavar="URL", help="Compare with a topic of this backend: a URL, a file or a context.")
@click.option("--against-topic", metavar="TOPIC", help="Compare with this topic. [default: the same name]")
@click.option("--any-partition", is_flag=True, help="Compare regardless of partitions, which may differ in number.")
@click.option("--ignore", type=click.Choice(IGNORABLE), multiple=True, help="Leave this field out. May be repeated.")
@output_option
def verify(
    client: ClientOptions,
    topic: str,
    against: str | None,
    against_topic: str | None,
    any_partition: bool,
    ignore: tuple[str, ...],
    output: Output,
) -> int:
    """Check each message of a topic, or compare two topics.

    It reads the topic to its current end, without a group, and prints for each partition the number of messages and a
    checksum of their keys, values, headers and timestamps in order. The same messages have the same checksum on every
    backend. It reports ids that do not ascend, and fewer messages than the backend counts, as problems.

    With --against or --against-topic, it compares two topics partition by partition, and names the first message that
    differs. With --any-partition, each message must occur equally often in both, and the messages of a key in the same
    order. Ids and log times are never compared.

    The exit code is 1 if the topics differ or a problem was found, and 3 if there was no message.

    Examples:
      $ mqplug verify rocksmq:///tmp/mq orders
      $ mqplug verify rocksmq:///tmp/mq orders --against kafka://localhost:9092 --ignore timestamp
    """
    from mqplug_cli._measuring.verification import Verification, VerifiedTopic, compared_fields

    if any_partition and against is None and against_topic is None:
        raise click.UsageError("--any-partition compares two topics. Add --against or --against-topic")
    with ExitStack() as stack:
        mq = stack.enter_context(client.open())
        topics = [VerifiedTopic(mq, topic, client.timeout)]
        if against is not None:
            other = stack.enter_context(named_client(against, client.timeout).open())
            topics.append(VerifiedTopic(other, against_topic or topic, client.timeout))
        elif against_topic is not None:
            topics.append(VerifiedTopic(mq, against_topic, client.timeout))
        verification = Verification(topics, compared_fields(ignore), any_partition=any_partition)
        _read(verification)
    if output.for_people:
        _show(verification, output)
    else:
        output.value(verification.report())
    return _exit_code(verification)


def _read(verification: Verification) -> None:
    with verification.opened() as read, Progress("reading", verification.expected) as progress:
        try:
            read(progress.advance)
        except KeyboardInterrupt:
            click.echo(f"interrupted after {verification.read:,} messages: nothing was verified", err=True)
            raise


def _exit_code(verification: Verification) -> int:
    if verification.differences or verification.problems:
        return FAILED
    return 0 if verification.read else BEHIND


def _show(verification: Verification, output: Output) -> None:
    found = verification.report()
    mine, other = found["partitions"], found["against"] and found["against"]["partitions"]
    if other is None:
        output.rows(("partition", "messages", "bytes", "checksum"), mine)
    elif len(mine) == len(other) and not verification.any_partition:
        rows = [{**one, "against": two["messages"], "same": one["checksum"] == two["checksum"]}
                for one, two in zip(mine, other, strict=True)]  # fmt: skip
        output.rows(("partition", "messages", "against", "checksum", "same"), rows)
    for said in (*verification.problems, *(each["says"] for each in found["differences"])):
        click.echo(said)
    click.echo(_verdict(verification))


def _verdict(verification: Verification) -> str:
    found = verification.checks[0]
    what = f"{found.messages:,} messages, partitions: {len(found.partitions)}"
    if len(verification.checks) == 1:
        return f"{'PROBLEMS' if verification.problems else 'good'}: {what}"
    fields = ", ".join(verification.fields)
    if verification.differences:
        return f"DIFFERENT: compared {fields}"
    order = "each partition in order"
    if verification.any_partition:
        order = "each key in order" if verification.compares_keys else "in any order"
    return f"same: {what}; compared {fields}, {order}; not ids and log times"
