"""``mqplug bench``: times a backend, or two in turn."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mqplug_cli._client_options import ClientCommand, ClientOptions, client_options, named_client
from mqplug_cli._output import Output, output_option
from mqplug_cli._places import duration_option
from mqplug_cli._terminal import Progress

if TYPE_CHECKING:
    from mqplug_cli._measuring.benchmark import Benchmark


@click.command(cls=ClientCommand)
@client_options
@click.option("--size", type=click.IntRange(min=0), default=1024, show_default=True, help="Bytes of each message.")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Send N messages in each round.")
@click.option("--seconds", callback=duration_option, metavar="TIME", help="Send for this long instead. [default: 5s]")
@click.option("--latencies", type=click.IntRange(min=1), default=1000, show_default=True, metavar="N",
              help="Time N single messages from send to receive in each round.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, metavar="N", help="Repeat N times.")
@click.option("--partitions", type=click.IntRange(min=1), default=1, show_default=True, help="Of each created topic.")
@click.option("--topic", metavar="TOPIC", help="Use this existing topic, and leave the messages there.")
@click.option("--against", metavar="URL", help="Compare with this backend: a URL, a file or the name of a context.")
@click.option(
    "--chart", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Draw the rounds as SVG."
)
@output_option
def bench(
    client: ClientOptions, against: str | None, chart: Path | None, output: Output, topic: str | None, **options: Any
) -> None:
    """Measure throughput and latency.

    Each round creates a topic and deletes it afterwards. It submits messages and flushes them, receives all of them in
    batches, then sends single messages, each when the previous one has been received. Rates are medians of the rounds;
    percentiles cover all single messages. With --against, the rounds of two backends alternate, and each figure of the
    first is divided by the second's.

    Examples:
      $ mqplug bench rocksmq:///tmp/mq --count 10000 --rounds 1 --json
      $ mqplug bench rocksmq:///tmp/mq --seconds 0.5s --rounds 1 --against kafka://localhost:9092 --chart rounds.svg
    """
    from mqplug_cli._measuring.benchmark import Benchmark, BenchmarkedBackend
    from mqplug_cli._measuring.loads import Load

    if options["count"] is not None and options["seconds"] is not None:
        raise click.UsageError("Give --count or --seconds, not both.")
    load = Load(
        size=options["size"], count=options["count"], seconds=options["seconds"] or 5.0,
        latencies=options["latencies"], timeout=client.timeout,
    )  # fmt: skip
    others = [named_client(against, client.timeout)] if against is not None else []
    with ExitStack() as stack:
        sides = [
            BenchmarkedBackend(each.label, stack.enter_context(each.open(creates=True)), topic)
            for each in (client, *others)
        ]
        benchmark = Benchmark(
            sides, load, rounds=options["rounds"], partitions=options["partitions"],
            warn=lambda text: click.echo(text, err=True),
        )  # fmt: skip
        try:
            with Progress("measuring", benchmark.expected) as progress:
                benchmark.run(progress.advance)
        except KeyboardInterrupt:
            _say_interrupted(benchmark, output, chart)
            raise
    _show(benchmark, output, chart)


def _say_interrupted(benchmark: Benchmark, output: Output, chart: Path | None) -> None:
    done = benchmark.complete_rounds
    click.echo(f"interrupted after {done} complete rounds", err=True)
    if done:
        _show(benchmark, output, chart)


def _show(benchmark: Benchmark, output: Output, chart: Path | None) -> None:
    from mqplug_cli._measuring.benchmark import measures, sizes

    if chart is not None:
        chart.write_text(benchmark.chart(), encoding="utf-8")
    found = benchmark.report()
    if not output.for_people:
        output.value(found)
        return
    click.echo(f"{sizes(found)}\n")
    figures = [measures(each) for each in found["results"]]
    columns = [each["label"] for each in found["results"]]
    if len(set(columns)) < len(columns):
        columns = ["first", "second"]
    rows = [
        {"measured": name} | {column: _figure(each[name]) for column, each in zip(columns, figures, strict=True)}
        for name in figures[0]
    ]
    if found["ratios"]:
        columns.append("ratio")
        rows = [row | {"ratio": _figure(found["ratios"].get(row["measured"]))} for row in rows]
    output.rows(("measured", *columns), rows)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
