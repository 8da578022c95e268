"""``mqplug produce``: sends lines, files or generated messages to a topic."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

import mqplug
from mqplug_cli._client_options import CLOSE_AFTER_FAILURE_S, ClientCommand, ClientOptions, client_options
from mqplug_cli._exit_codes import FAILED
from mqplug_cli._messages.pipes import Inputs, Stop, files, lines, repeated
from mqplug_cli._messages.records import RecordMaker, Template, Texts
from mqplug_cli._messages.sending import InputNames, Outcomes, Pacer, SendingThread, report
from mqplug_cli._terminal import Progress

file_type = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(cls=ClientCommand)
@client_options
@click.argument("topic")
@click.option("-K", "--key-separator", "separator", metavar="TEXT", help="Split lines into key and value at this text.")
@click.option("--json", "envelopes", is_flag=True, help="Each line is a JSON object, as consume --json writes it.")
@click.option("-0", "--null-data", "nul", is_flag=True, help="Messages end with a NUL byte, not with a line break.")
@click.option("-Z", "--tombstones", is_flag=True, help="Send empty values, and with -K empty keys, as null.")
@click.option("--file", "paths", multiple=True, metavar="FILE", type=file_type, help="Send this file as a message.")
@click.option("--value", metavar="TEXT", help="Send this text instead of standard input.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Send --value N times, as a template.")
@click.option("--key", metavar="TEXT", help="The key of each message.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of each message.")
@click.option("--partition", type=click.IntRange(min=0), metavar="N", help="Send to this partition.")
@click.option("--repartition", is_flag=True, help="With --json: ignore the partitions of the lines, and choose by key.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Send N messages per second.")
@click.option("--create", is_flag=True, help="Create the topic if it does not exist.")
def produce(client: ClientOptions, topic: str, create: bool, rate: float | None, **options: Any) -> int:
    """Send the lines of standard input to a topic.

    Each line is sent as a message as soon as it arrives, with every byte except the line break. --file and --value send
    a file or a text instead. A summary on standard error counts the stored messages and names the lines that were not
    stored; the exit code is 1 if there are any. A line that is not a valid message does not stop the others. If the
    server fails, sending stops.

    With --count, the texts of --value, --key and --header are templates: {{n}} is the number of the message, from 1,
    {{time}} the time in UTC, {{ms}} milliseconds since 1970, {{uuid}} a random UUID, and {{random 16}} 16 random
    letters and digits.

    Examples:
      $ echo "two chairs" | mqplug produce rocksmq:///tmp/mq orders
      $ printf 'ann:two chairs\\nbob:a table\\n' | mqplug produce rocksmq:///tmp/mq orders -K :
      $ mqplug produce rocksmq:///tmp/mq orders --count 10 --key 'k{{n}}' --value 'order {{n}} at {{time}}'
      $ mqplug consume rocksmq:///tmp/mq orders --json | mqplug produce rocksmq:///tmp/mq returns --json --repartition
    """  # noqa: D301  click wants a real \\b
    _check(options)
    outcomes = Outcomes()
    with client.open(creates=create) as mq:
        producer = mq.producer(topic, create=create, timeout=client.timeout)
        maker = _maker(options, outcomes, lambda: len(mq.partitions(topic, timeout=client.timeout)))
        _Run(producer, outcomes, maker, _names(options), client.timeout).run(options, rate)
        if not outcomes.complete:
            with suppress(mqplug.Error):  # the summary names what was not stored
                producer.close(CLOSE_AFTER_FAILURE_S)
    return 0 if outcomes.complete else FAILED


class _Run:
    """Reads inputs and hands them to the sending thread, until they end or Ctrl-C."""

    def __init__(
        self, producer: mqplug.Producer, outcomes: Outcomes, maker: RecordMaker, names: InputNames, timeout: float
    ) -> None:
        self._stop = Stop()
        self._outcomes = outcomes
        self._maker = maker
        self._names = names
        self._sending = SendingThread(producer, outcomes, timeout, self._stop.set)
        self._read = 0

    def run(self, options: dict[str, Any], rate: float | None) -> None:
        """Send all inputs, and report."""
        self._sending.start()
        try:
            with Progress("sending", options["count"]) as progress:
                inputs = self._inputs(options)
                for some, size in inputs if rate is None else self._paced(inputs, Pacer(rate)):
                    self._hand_on(some, size)
                    if not _types(options):
                        progress.advance(len(some))
                    if self._sending.stopped:
                        break
        finally:  # also after Ctrl-C: messages already read are sent
            self._sending.finish()
            report(self._outcomes, self._names, self._read)

    def _inputs(self, options: dict[str, Any]) -> Iterator[Inputs]:
        if options["paths"]:
            return files(options["paths"])
        if options["value"] is None:
            return lines(sys.stdin.fileno(), b"\0" if options["nul"] else b"\n", self._stop)
        return repeated(options["count"] or 1, _text(options["value"], options))

    def _paced(self, inputs: Iterator[Inputs], pacer: Pacer) -> Iterator[Inputs]:
        for some, size in inputs:
            sent = 0
            while sent < len(some):
                count = pacer.take(len(some) - sent)
                if count:
                    yield some[sent : sent + count], size
                    sent += count
                elif self._stop.wait(pacer.wait):
                    return

    def _hand_on(self, some: list[bytes], size: int) -> None:
        first = self._read + 1
        self._read += len(some)
        self._sending.put(self._maker.block(some, first, size))


def _types(options: dict[str, Any]) -> bool:
    """Return whether the inputs are typed on a terminal."""
    return not options["paths"] and options["value"] is None and sys.stdin.isatty()


def _check(options: dict[str, Any]) -> None:
    given = [name for name, used in (("--file", options["paths"]), ("--value", options["value"] is not None)) if used]
    if len(given) > 1:
        raise click.UsageError("Give --file or --value, not both.")
    if given and options["nul"]:
        raise click.UsageError(f"-0 is for standard input, which {given[0]} does not read.")
    if options["count"] is not None and options["value"] is None:
        raise click.UsageError("--count needs --value.")
    if options["separator"] == "":
        raise click.UsageError("-K needs a separator that is not empty.")
    if options["separator"] is not None and (options["envelopes"] or given):
        raise click.UsageError("Give -K without --json, --file and --value.")
    if options["repartition"] and (not options["envelopes"] or options["partition"] is not None):
        raise click.UsageError("Give --repartition with --json, without --partition.")


def _maker(options: dict[str, Any], outcomes: Outcomes, count_partitions: Callable[[], int]) -> RecordMaker:
    partition = options["partition"]
    keeps_partition = options["envelopes"] and not options["repartition"]
    partitions = count_partitions() if partition is not None or keeps_partition else None
    if partition is not None and partitions is not None and partition >= partitions:
        raise click.BadParameter(f"the topic has partitions 0 to {partitions - 1}", param_hint="--partition")
    return RecordMaker(
        outcomes.refuse, envelopes=options["envelopes"], partitions=partitions, keeps_partition=keeps_partition,
        separator=None if options["separator"] is None else options["separator"].encode("utf-8", "surrogateescape"),
        empty_is_null=options["tombstones"],
        key=None if options["key"] is None else _text(options["key"], options),
        headers=_headers(options), partition=partition,
    )  # fmt: skip


def _headers(options: dict[str, Any]) -> Texts:
    headers = []
    for text in options["headers"]:
        name, separator, value = text.partition("=")
        if not separator:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="-H")
        headers.append((name, _text(value, options)))
    return headers


def _text(text: str, options: dict[str, Any]) -> Callable[[int], bytes]:
    """Return a function from the number of a message to an argument's bytes. With --count it fills a template."""
    if options["count"] is None:
        data = text.encode("utf-8", "surrogateescape")
        return lambda _: data
    try:
        return Template(text).fill
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _names(options: dict[str, Any]) -> InputNames:
    if options["paths"]:
        return InputNames("file", [str(path) for path in options["paths"]])
    return InputNames("message" if options["nul"] or options["value"] is not None else "line")
