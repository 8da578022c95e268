"""``mqplug rocksmq import-milvus``: messages of Milvus' own RocksMQ into a store, a Kafka or a Pulsar."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

import mqplug
from mqplug import TopicExists

if TYPE_CHECKING:
    from mqplug_rocksmq._engine.milvus_files import MilvusFiles

AT_ONCE = 1000


@click.command("import-milvus")
@click.argument("path", type=click.Path(file_okay=False, path_type=Path))
@click.argument("target", metavar="URL")
@click.option("--topic", "topics", multiple=True, help="Import only this topic; may be repeated. By default all.")
@click.option("--ids", type=click.File("w"), help="Write each message's old id and its new one to this file, as JSON.")
def import_milvus(path: Path, target: str, topics: tuple[str, ...], ids: IO[str] | None) -> None:
    """Copy the messages of Milvus' own RocksMQ at PATH to the backend at URL.

    PATH is what rocksmq.path of milvus.yaml names. Its files are only read, also while Milvus runs: then what it has
    written so far is copied. The topics must not exist at URL. A message keeps its value; Milvus stores no key, no
    header and no time beside it.
    """
    from mqplug_rocksmq._engine.milvus_files import MilvusFiles

    with MilvusFiles(path.absolute()) as files, mqplug.connect(target) as mq:
        known = files.topics()
        if unknown := sorted(set(topics) - set(known)):
            raise click.UsageError(f"{path} has no topic {unknown[0]!r}. It has: {', '.join(known)}")
        for topic in topics or known:
            try:
                mq.create_topic(topic)
            except TopicExists as error:
                error.fix = "Delete it, import into another backend, or name other topics with --topic"
                raise
            click.echo(f"{_copy(files, mq, topic, ids)} messages  {topic}")


def _copy(files: MilvusFiles, mq: mqplug.Client, topic: str, ids: IO[str] | None) -> int:
    copied = 0
    messages = files.messages(topic)
    with mq.producer(topic) as out:
        while some := list(islice(messages, AT_ONCE)):
            stored = out.send_many([value for _, value in some])
            if ids is not None:
                for (old, _), new in zip(some, stored, strict=True):
                    ids.write(json.dumps({"topic": topic, "old": old, "new": str(new)}) + "\n")
            copied += len(some)
    return copied
