"""``mqplug consume``: writes the messages of topics to standard output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

import mqplug
from mqplug_cli._client_options import ClientCommand, ClientOptions, client_options
from mqplug_cli._exit_codes import BEHIND
from mqplug_cli._messages.pipes import OutputPipe
from mqplug_cli._messages.reading import MOST_TOGETHER, MessageFilter, Reader, ReadRequest
from mqplug_cli._messages.writing import DECODINGS, TableLines, Write, formatted, json_lines, raw_lines
from mqplug_cli._places import PLACES_HELP, Offset, Place
from mqplug_cli._terminal import Progress

STORED: Final = "stored"


class _StartPlace(Place):
    """A place, or ``stored``: the group's position."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the start that a text names."""
        return STORED if value == STORED else super().convert(value, param, ctx)


class _OutputFormat(click.Choice):  # type: ignore[type-arg]
    """An output format. In other tools -o says where to start, so the error for such a value names --from."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the format that a text names."""
        if value not in self.choices:
            self.fail(f"{value!r} is not one of {', '.join(self.choices)}. For the start, use --from: {PLACES_HELP}")
        return super().convert(value, param, ctx)


@click.command(cls=ClientCommand)
@client_options
@click.argument("topics", nargs=-1, metavar="TOPIC...")
@click.option("--matching", metavar="REGEX", help="Read all topics whose full name matches.")
@click.option(
    "--from", "start", type=_StartPlace(offsets=True), metavar="PLACE", help="Where to start. [default: earliest]"
)
@click.option(
    "--to", "until", type=Place(offsets=True), metavar="PLACE", help="Where to end. [default: the current end]"
)
@click.option("--follow", "-f", is_flag=True, help="Continue with new messages; start there unless --from is given.")
@click.option("-n", "--max", "most", type=click.IntRange(min=1), metavar="N", help="End after N messages.")
@click.option("--tail", type=click.IntRange(min=1), metavar="N", help="Only the last N messages of all partitions.")
@click.option("--group", metavar="NAME", help="Read as a member of this group, and ack written messages.")
@click.option(
    "--partition",
    "-p",
    "partitions",
    multiple=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="Read only this partition. May be repeated.",
)
@click.option("--filter-key", multiple=True, metavar="GLOB", help="Only messages with a matching key.")
@click.option("--filter-value", multiple=True, metavar="GLOB", help="Only messages with a matching value.")
@click.option("--filter-header", multiple=True, metavar="NAME=GLOB", help="Only messages with a matching header.")
@click.option("--decode", type=click.Choice(DECODINGS), help="How to show values.")
@click.option("--decode-key", type=click.Choice(DECODINGS), help="How to show keys.")
@click.option("--format", "template", metavar="TEXT", help=r"A format as in kcat: '%t %p %o %k %s\n'. See above.")
@click.option("-K", "--key-separator", "separator", metavar="TEXT", help="Write the key, this text and the value.")
@click.option(
    "-o",
    "--output",
    "output_format",
    type=_OutputFormat(["table", "json", "raw"]),
    help="Output format. [default: raw]",
)
@click.option("--json", "as_json", is_flag=True, help="Same as -o json: a JSON object on each line.")
def consume(client: ClientOptions, topics: tuple[str, ...], most: int | None, **options: Any) -> int:
    """Write the messages of topics to standard output.

    It writes the stored messages and ends; the exit code is 3 if there are none. --follow continues with new messages.
    Each value is written unchanged on a line of its own, unless -o, --format or --decode says otherwise. produce --json
    reads the output of --json.

    A PLACE is earliest, latest, -N (the last N of each partition), @TIME, @-10m (ten minutes ago), an id or a position,
    which limits reading to its partition, or with -p #N, the offset N of that partition. --to names the first message
    that is not read.

    Without --group, reading leaves no trace at the broker. With it, the group continues from its position
    (--from stored), and any other --from applies only to a new group. A message is acked after it was written, so none
    is lost.

    --format has %t topic, %p partition, %o offset, %T timestamp in milliseconds, %k key, %K its length, %s value, %S
    its length, %R its length as four bytes, %h headers, %% a percent sign, \\n \\r \\t \\xFF.

    Examples:
      $ mqplug consume rocksmq:///tmp/mq orders
      $ mqplug consume rocksmq:///tmp/mq orders --from @-10m -n 5 --json
      $ mqplug consume rocksmq:///tmp/mq orders --tail 3 --format '%T %k: %s\\n'
      $ mqplug consume rocksmq:///tmp/mq orders --group billing -o table
    """  # noqa: D301  click wants a real \\b
    request = _request(topics, client.timeout, options)
    chosen, write = _filter(options), _writer(options)
    with client.open() as mq, request.open(mq) as consumer:
        copying = _Copying(Reader(mq, consumer, request, OutputPipe()), chosen, write, most)
        copying.run(request)
    return 0 if copying.written else BEHIND


class _Copying:
    """Writes the messages that pass the filter, up to a limit, and has them acked afterwards."""

    def __init__(self, reader: Reader, chosen: MessageFilter, write: Write, most: int | None) -> None:
        self._reader = reader
        self._chosen = chosen
        self._write = write
        self._most = most
        self._pipe = reader.pipe
        self._progress = Progress("reading", most)
        self.written = 0

    def run(self, request: ReadRequest) -> None:
        """Write until the end or the limit."""
        with self._progress:
            if request.tail is not None:
                for batch in self._reader.newest(request.tail):
                    self._copy(batch)
                if not request.follow:
                    return
            for batch in self._reader.batches(self._room):
                rows = self._copy(batch)
                if self._left == 0:
                    self._reader.done(batch, rows[-1])
                    return
                self._reader.done(batch, len(batch) - 1)

    @property
    def _left(self) -> int:
        return MOST_TOGETHER if self._most is None else self._most - self.written

    def _room(self) -> int:
        return self._left if self._chosen.is_empty else MOST_TOGETHER

    def _copy(self, batch: mqplug.Batch) -> Sequence[int]:
        """Write the messages of a batch that pass. Return their rows."""
        rows: Sequence[int] = range(len(batch)) if self._chosen.is_empty else self._chosen.rows(batch)
        rows = rows[: self._left]
        if rows:
            whole = len(rows) == len(batch)
            self._pipe.write(self._write(batch if whole else batch.take(rows, batch.next_position)))
            self.written += len(rows)
            if not self._pipe.is_terminal:
                self._progress.advance(len(rows))
        return rows


def _request(topics: tuple[str, ...], timeout: float, options: dict[str, Any]) -> ReadRequest:
    start, until, group, tail = (options[name] for name in ("start", "until", "group", "tail"))
    partitions = list(options["partitions"]) or None
    if bool(topics) == bool(options["matching"]):
        raise click.UsageError("Give either the names of topics or --matching.")
    if partitions and (group or options["matching"]):
        raise click.UsageError("Give --partition with the names of topics, without --group.")
    if tail is not None and (start is not None or until is not None or group):
        raise click.UsageError("Give --tail without --from, --to and --group.")
    if until is not None and options["follow"]:
        raise click.UsageError("Give --to or --follow, not both.")
    if start == STORED and not group:
        raise click.UsageError("--from stored needs --group.")
    if group and (isinstance(start, Offset) or isinstance(until, Offset)):
        raise click.UsageError("An offset belongs to one partition. Read it without --group.")
    only = {log.partition for place in (start, until) if (log := _log_of(place)) is not None}
    if only and (len(topics) != 1 or group or len(only) > 1 or (partitions and set(partitions) != only)):
        raise click.UsageError(
            "An id or a position belongs to one partition of one topic. Read only that, without --group."
        )
    return ReadRequest(
        topics=list(topics) or _pattern(options["matching"]),
        start=_start(start, options), until=until if until is not None else _end(options),
        partitions=sorted(only) or partitions, group=group, follow=options["follow"], tail=tail, timeout=timeout,
    )  # fmt: skip


def _start(start: Any, options: dict[str, Any]) -> mqplug.Start | None:
    if options["tail"] is not None:
        return mqplug.last(options["tail"])
    if start == STORED or (start is None and options["group"]):
        return None
    if start is not None:
        found: mqplug.Start = start
        return found
    return mqplug.LATEST if options["follow"] else mqplug.EARLIEST


def _end(options: dict[str, Any]) -> mqplug.Start | None:
    return None if options["follow"] or options["tail"] is not None else mqplug.LATEST


def _log_of(place: object) -> mqplug.Log | None:
    """Return the log that an id or a position belongs to; None for another place."""
    log: mqplug.Log | None = getattr(getattr(place, "id", place), "log", None)
    return log


def _pattern(text: str) -> Any:
    try:
        return mqplug.matching(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--matching") from None


def _filter(options: dict[str, Any]) -> MessageFilter:
    try:
        return MessageFilter(options["filter_key"], options["filter_value"], options["filter_header"])
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--filter-header") from None


def _writer(options: dict[str, Any]) -> Write:
    output = "json" if options["as_json"] else options["output_format"]
    template, separator = options["template"], options["separator"]
    if sum(given is not None for given in (output, template, separator)) > 1:
        raise click.UsageError("Give one of -o, --json, --format and -K.")
    how = options["decode"], options["decode_key"]
    if output == "json":
        return json_lines(*how)
    if output == "table":
        return TableLines(*how).write
    if separator is not None:
        template = "%k{}%s\\n".format(separator.replace("\\", "\\\\").replace("%", "%%"))
    if template is None and how == (None, None):
        return raw_lines
    try:
        return formatted("%s\\n" if template is None else template, *how)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None
