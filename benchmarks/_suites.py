"""The suites: what each compares, what its rivals do not have, and its part of ``python -m benchmarks all``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

Kind = Literal["contests", "findings", "three"]


@attrs.frozen(kw_only=True)
class Suite:
    """A suite, which is the module ``benchmarks.<name>``.

    ``minutes`` is its part of the time of ``all``. A suite without one is only part of ``all --quick``.
    ``judged`` means that ``all`` runs only its contests with an aim. ``needs`` is a program that must be installed.
    """

    name: str
    title: str
    compares: str
    kind: Kind = "contests"
    rivals: Mapping[str, str] = attrs.field(factory=dict)
    """What each rival does not have, or in which other way it differs."""
    packages: Sequence[str] = ()
    brokers: Sequence[str] = ()
    minutes: float = 0.0
    judged: bool = False
    needs: str = ""
    gib: float = 0.0
    """How many GiB a suite of findings writes."""


_ROCKSDICT = "topics, groups, ids, retention, locks, wake-ups; the rest is the plugin's page format and RocksDB options"
_SQLITE = "topics, groups, retention, wake-ups; it can be queried with SQL"
_TAKEN = "topics, groups, ids, times, and reading again: a value is gone once it is taken"
_ROCKSMQ_PACKAGES = ("rocksdict", "pyarrow", "persist-queue", "litequeue", "diskcache")
_NOTHING = "nothing: it is mqplug without its compiled part (`native=off`)"
_OWN_OPTIONS = "what the rival of the same contest does not have; it runs with all options that mqplug passes"
_JAVA = "a program around it: a tool for measuring, in a process of its own, whose start is included"
_KAFKA_READER = "batches as columns; ids and positions that are refused in another cluster or a recreated topic"
_KAFKA_PACKAGES = ("mqplug-kafka", "mqplug-kafka-native", "confluent-kafka", "pyarrow")
_PULSAR_PACKAGES = ("mqplug-pulsar", "mqplug-pulsar-native", "pulsar-client", "pyarrow")

_DECLARED = (
    Suite(
        name="core",
        title="The core",
        compares="What mqplug itself adds to each message, over a backend without cost, and to the start of a program.",
        rivals={
            "bare loop": "checks of arguments, partitions, handles, acks, errors, closing; it works for one driver",
            "nothing": "everything: an empty interpreter",
            "required": "mqplug: an interpreter that imports only attrs, cattrs and pluggy",
        },
        minutes=1,
    ),
    Suite(
        name="rocksmq_batches",
        title="RocksMQ in batches",
        compares="Writing 1000 messages at a time, synced and not, and reading them to values, messages and Arrow.",
        rivals={
            "rocksdict": _ROCKSDICT,
            "sqlite": _SQLITE,
            "sqlite log": f"{_SQLITE}, and has offsets for each partition and indexes by offset and by time",
            "persist-queue": _TAKEN,
            "litequeue": _TAKEN,
            "diskcache": _TAKEN,
        },
        packages=_ROCKSMQ_PACKAGES,
        minutes=2.5,
    ),
    Suite(
        name="rocksmq_bulk",
        title="RocksMQ in bulk",
        compares="Staging and ingesting files of messages, and reading them.",
        rivals={
            "rocksdict": f"{_ROCKSDICT}; also partitions, an index, a checksum of the file, the mark of an ingest",
            "mqplug sent": "nothing: it is mqplug with `send_many`",
        },
        packages=_ROCKSMQ_PACKAGES,
        minutes=0.75,
    ),
    Suite(
        name="rocksmq_sends",
        title="Single sends to RocksMQ",
        compares="Sends that wait, from 1, 16 and 64 threads, and `submit` with a thousand outstanding.",
        rivals={"rocksdict": _ROCKSDICT, "sqlite": _SQLITE},
        packages=_ROCKSMQ_PACKAGES,
        minutes=0.75,
    ),
    Suite(
        name="rocksmq_wakeup",
        title="Wake-ups of RocksMQ",
        compares="How quickly a blocked `receive` returns a sent message, in one process and from one to another.",
        rivals={
            "queue": "storage, topics, groups: the messages stay in memory",
            "socket": "storage, topics, groups: bytes pass through a relay of two Unix sockets",
        },
        packages=_ROCKSMQ_PACKAGES,
        minutes=0.75,
    ),
    Suite(
        name="rocksmq_curves",
        title="Queries in large RocksMQ stores",
        compares="Watermarks and seeks in stores of 1,000 to 10,000,000 messages, and of 1 to 10,000 topics. Each rival"
        " is a smaller store, and the ratio should stay near 1.",
        packages=_ROCKSMQ_PACKAGES,
    ),
    Suite(
        name="rocksmq_queue",
        title="RocksMQ as a job queue",
        compares="Put, take and ack, one by one and a hundred at a time, synced and not.",
        rivals={
            "sqlite": "groups, retries, dead letters, a second consumer; it keeps in memory which jobs are taken",
            "litequeue": "groups, dead letters, taking many at once",
            "persist-queue": "groups, dead letters, batches",
        },
        packages=_ROCKSMQ_PACKAGES,
        minutes=0.75,
    ),
    Suite(
        name="rocksmq_large",
        title="A large RocksMQ store",
        compares="Seconds to open a store of 10 GiB after a kill and after a stop, and the memory of each step.",
        kind="findings",
        packages=_ROCKSMQ_PACKAGES,
        gib=10.0,
    ),
    Suite(
        name="three",
        title="Three backends",
        compares="One workload over RocksMQ, Kafka and Pulsar. [Three backends side by side](three-backends.md)"
        " describes what is measured.",
        kind="three",
        packages=("rocksdict", "confluent-kafka", "pulsar-client"),
        brokers=("Kafka", "Pulsar"),
        minutes=2.5,
    ),
    Suite(
        name="kafka",
        title="Kafka",
        compares="Sending and receiving, compared with confluent-kafka, its own client, on one broker.",
        rivals={
            "produce": "waiting for room in a full queue, ids, outcomes that separate failed from unknown; beside"
            " `submit, unwatched` it learns of no failure",
            "consume": _KAFKA_READER,
            "poll": _KAFKA_READER,
            "own options": _OWN_OPTIONS,
            "plain": _NOTHING,
            "ceiling": "any look at the messages: librdkafka fetches, counts and frees them",
            "java": _JAVA,
        },
        packages=_KAFKA_PACKAGES,
        brokers=("Kafka",),
        minutes=4,
    ),
    Suite(
        name="kafka_partitions",
        title="Many partitions of Kafka",
        compares="Watermarks and lag of all partitions, compared with confluent-kafka's requests for their offsets.",
        rivals={"list_offsets": "lag in one call: the program subtracts offsets"},
        packages=_KAFKA_PACKAGES,
        brokers=("Kafka",),
        minutes=0.75,
    ),
    Suite(
        name="kafka_memory",
        title="A slow reader of Kafka",
        compares="The memory that a reader adds while 1 GiB waits for it.",
        kind="findings",
        packages=_KAFKA_PACKAGES,
        brokers=("Kafka",),
        gib=1.0,
    ),
    Suite(
        name="pipes",
        title="Pipes",
        compares="`mqplug consume` and `mqplug produce` at pipes, as processes with their start.",
        rivals={"kcat": "other backends; it is written in C"},
        packages=_KAFKA_PACKAGES,
        brokers=("Kafka",),
        minutes=1,
        needs="kcat",
    ),
    Suite(
        name="pulsar",
        title="Pulsar",
        compares="Sending and receiving, compared with pulsar-client, its own client, on one broker.",
        rivals={
            "send_async": "waiting for all of a batch, outcomes that separate failed from unknown",
            "as it comes": "the options of the other sides: it runs with its defaults, and sends without batches",
            "send": "outcomes that separate failed from unknown",
            "read_next": "batches, columns",
            "receive": "batches, columns",
            "batch_receive": "columns; it needs a subscription, which stays at the broker",
            "own options": _OWN_OPTIONS,
            "plain": _NOTHING,
            "java": _JAVA,
        },
        packages=_PULSAR_PACKAGES,
        brokers=("Pulsar",),
        minutes=5,
    ),
    Suite(
        name="pulsar_partitions",
        title="Many partitions of Pulsar",
        compares="Threads, memory, idle CPU time and speed of a reader of 64 partitions.",
        kind="findings",
        packages=_PULSAR_PACKAGES,
        brokers=("Pulsar",),
        gib=0.1,
    ),
    Suite(
        name="milvus",
        title="Milvus",
        compares="Inserted rows in a topic of Milvus, decoded to typed Arrow columns.",
        rivals={"protobuf": "the checks of lengths, and every other type of field"},
        packages=("mqplug-milvus", "protobuf", "pyarrow"),
        minutes=0.5,
    ),
    Suite(
        name="spark",
        title="Spark",
        compares="Batch reads, streams and writes of mqplug-spark over RocksMQ and Kafka.",
        rivals={
            "connector": "backends other than Kafka; it is spark-sql-kafka with its defaults, inside the JVM",
            "tuned": "backends other than Kafka; it is spark-sql-kafka with the four options that make it fastest",
            "constant": "a backend: it yields one constant batch, which shows the time that Spark itself takes",
        },
        packages=("mqplug-spark", "pyspark", "mqplug-rocksmq", *_KAFKA_PACKAGES),
        brokers=("Kafka",),
        minutes=7,
        judged=True,
    ),
)
SUITES: Mapping[str, Suite] = {suite.name: suite for suite in _DECLARED}
GROUPS: Mapping[str, Sequence[str]] = {
    "rocksmq": [name for name, suite in SUITES.items() if name.startswith("rocksmq_") and suite.kind == "contests"]
}
"""Names that stand for several suites of contests, run one after the other."""
