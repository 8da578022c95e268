"""``mqplug milvus``: collections, their events and rows, and Milvus' checkpoints, at the terminal."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import mqplug
from mqplug_milvus._format.events import (
    CollectionCreated,
    CollectionDropped,
    Delete,
    Event,
    Insert,
    Other,
    PartitionCreated,
    PartitionDropped,
    TimeTick,
)
from mqplug_milvus._reading.checkpoints import checkpoints as stored_checkpoints
from mqplug_milvus._reading.feed import TOPICS, collections as seen_collections, read as read_events
from mqplug_milvus._reading.table import Tables

if TYPE_CHECKING:
    from mqplug import Client

PLACES = {"earliest": mqplug.EARLIEST, "latest": mqplug.LATEST}
target_argument = click.argument("target", metavar="[URL]", required=False)


def commands() -> list[click.Command]:
    """Return all commands."""
    return [checkpoints, collections, rows, tail]


def connected(target: str | None) -> Client:
    """Connect to the queue that a URL or Milvus' own file names, or else the environment or `mqplug.toml`."""
    is_file = target is not None and target.endswith((".yaml", ".yml", ".toml"))
    return mqplug.connect(Path(target) if target is not None and is_file else target, must_exist=True)


@click.command()
@target_argument
def collections(target: str | None) -> None:
    """List the collections whose creation is still in the queue: number, name and fields.

    URL is an address such as kafka://host:9092, or Milvus' own milvus.yaml.
    """
    with connected(target) as mq:
        for number, event in sorted(seen_collections(mq).items()):
            fields = ", ".join(f"{each.name} {each.type.name.lower()}" for each in event.schema.fields)
            click.echo(f"{number}  {event.collection}  {fields}")


@click.command()
@click.argument("collection")
@target_argument
@click.option("--from", "start", default="earliest", show_default=True, help="earliest, latest, or a time (ISO 8601).")
def tail(collection: str, target: str | None, start: str) -> None:
    """Print the events of COLLECTION that the queue holds, as lines of JSON, in the order of Milvus' time stamps.

    COLLECTION is a name or a number. Time ticks are left out.
    """
    with connected(target) as mq:
        numbers = _numbers(mq, collection)
        for event in _events(mq, _place(start)):
            if getattr(event, "collection_id", None) in numbers:
                for line in lines(event):
                    click.echo(json.dumps(line, ensure_ascii=False, default=_plain))


@click.command()
@click.argument("collection")
@target_argument
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write a Parquet file instead of lines.")
def rows(collection: str, target: str | None, out: Path | None) -> None:
    """Print the rows of COLLECTION as they are now, as lines of JSON, or write them to a Parquet file.

    They are what Milvus' query returns, if the queue still holds the collection from its creation.
    """
    with connected(target) as mq:
        tables = Tables()
        for event in _events(mq, mqplug.EARLIEST):
            tables.apply(event)
        try:
            found = list(tables[collection].rows.values())
        except KeyError:
            raise _unknown(collection, tables.names.values()) from None
    if out is None:
        for row in found:
            click.echo(json.dumps(row, ensure_ascii=False, default=_plain))
        return
    _write_parquet(found, out)
    click.echo(f"{len(found)} rows in {out}")


@click.command()
@click.argument("etcd")
@target_argument
@click.option("--root", default="by-dev", show_default=True, help="The root path of this Milvus in etcd.")
def checkpoints(etcd: str, target: str | None, root: str) -> None:
    """Show where Milvus would begin to read each topic again, from its ETCD such as http://localhost:2379.

    With a URL, or Milvus' own file, the places are positions of that queue.
    """
    found = stored_checkpoints(etcd, root)
    for shard, checkpoint in sorted(found.items()):
        click.echo(f"{shard}  {checkpoint.at.isoformat(timespec='milliseconds')}  {checkpoint.place.hex()}")
    if target is not None:
        with connected(target) as mq:
            for shard, checkpoint in sorted(found.items()):
                click.echo(f"{shard}  {checkpoint.position(mq)}")


def lines(event: Event) -> Iterator[dict[str, Any]]:
    """Yield what an event says: one object for each row and each key."""
    at = event.at.isoformat(timespec="milliseconds")
    match event:
        case Insert():
            for row in event.rows():
                yield {"event": "upsert" if event.is_upsert else "insert", "at": at, "row": row}
        case Delete():
            for key in event.keys:
                yield {"event": "delete", "at": at, "key": key}
        case CollectionCreated():
            yield {"event": "created", "at": at, "fields": [each.name for each in event.schema.fields]}
        case CollectionDropped():
            yield {"event": "dropped", "at": at}
        case PartitionCreated() | PartitionDropped():
            kind = "partition created" if isinstance(event, PartitionCreated) else "partition dropped"
            yield {"event": kind, "at": at, "partition": event.partition}
        case TimeTick() | Other() | _:
            pass


def _events(mq: Client, start: Any) -> Iterator[Event]:
    for topic in mq.topics(mqplug.matching(TOPICS)):
        yield from read_events(mq, topic, start=start)


def _numbers(mq: Client, collection: str) -> set[int]:
    if collection.isdecimal():
        return {int(collection)}
    seen = seen_collections(mq)
    found = {number for number, event in seen.items() if event.collection == collection}
    if not found:
        raise _unknown(collection, [event.collection for event in seen.values()])
    return found


def _unknown(collection: str, names: Any) -> click.UsageError:
    known = ", ".join(sorted(set(names))) or "none"
    return click.UsageError(
        f"The queue does not hold the creation of {collection!r}. It holds those of: {known}. "
        "If retention removed it, give the collection's number."
    )


def _place(text: str) -> Any:
    if text in PLACES:
        return PLACES[text]
    try:
        return mqplug.at_time(datetime.fromisoformat(text).astimezone())
    except ValueError:
        raise click.BadParameter(f"{text!r} is not earliest, latest or a time", param_hint="--from") from None


def _plain(value: Any) -> str:
    """Return what JSON has no form for: vectors of bytes, as base64."""
    return base64.b64encode(value).decode()


def _write_parquet(found: list[dict[str, Any]], out: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise click.UsageError("A Parquet file needs pyarrow: pip install 'mqplug-milvus[arrow]'") from None
    names = list(dict.fromkeys(name for row in found for name in row))
    columns = {name: [_cell(row.get(name)) for row in found] for name in names}
    pq.write_table(pa.table(columns), out)


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value
