"""Spark shows no secret: not in plans, the web UI, the event log, checkpoints or errors."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import attrs
import pytest
from continuous import process_all
from pyspark.errors import PySparkException

import mqplug
from mqplug import Record
from mqplug_devbrokers import KafkaSecurity, KafkaServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(360)  # the first test that needs Spark starts it

PASSWORD = "moonstone-of-alice"
KEY = "-----BEGIN PRIVATE KEY----- moonstone -----END PRIVATE KEY-----"


@pytest.fixture(scope="module")
def secured(java: None) -> Iterator[KafkaServer]:
    """A Kafka where alice logs in with a password over TLS. Its topic ``orders`` holds ten messages."""
    with KafkaServer(security=KafkaSecurity(users={"alice": PASSWORD})) as server:
        with mqplug.connect(server.url) as client:
            client.create_topic("orders")
            with client.producer("orders") as out:
                out.send_many([Record(b"%d" % number) for number in range(10)])
        yield server


@pytest.fixture(scope="module")
def ways(secured: KafkaServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The options of each way to log in."""
    kept = tmp_path_factory.mktemp("secrets") / "password"
    kept.write_text(f"{PASSWORD}\n")
    servers, ca_file = secured.secured.address("sasl_tls"), str(secured.secured.ca_file)
    login = {
        "kafka.bootstrap.servers": servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": "alice",
        "kafka.ssl.ca.location": ca_file,
    }
    query = f"tls=true&mechanism=SCRAM-SHA-256&ca_file={ca_file}"
    config = kept.with_name("mqplug.toml")
    config.write_text(
        f'[kafka]\nservers = ["{servers}"]\nusername = "alice"\npassword = "{PASSWORD}"\n'
        f'mechanism = "SCRAM-SHA-256"\ntls = true\nca_file = "{ca_file}"\n'
    )
    return {
        "url": {"url": f"kafka://alice:{PASSWORD}@{servers}?{query}"},
        "reference in url": {"url": f"kafka://alice:${{file:{kept}}}@{servers}?{query}"},
        "option": {**login, "kafka.sasl.password": PASSWORD},
        "reference": {**login, "kafka.sasl.password": f"${{file:{kept}}}"},
        "file": {"config": str(config)},
    }


WAYS = ("url", "reference in url", "option", "reference", "file")


@attrs.frozen
class Shown:
    """All texts that Spark shows of a test."""

    spark: SparkSession
    since: int  # the first query of the test; Spark drops the pages of older ones
    texts: list[str] = attrs.field(factory=list)

    def of_frame(self, frame: DataFrame) -> None:
        """Add the plans of a data frame as users and tools see them."""
        execution: Any = frame._jdf.queryExecution()  # type: ignore[operator]
        self.texts.extend([execution.toString(), execution.logical().toJSON(), execution.executedPlan().toJSON()])
        for mode in ("simple", "extended", "formatted", "cost"):
            explain = self.spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString(mode)  # type: ignore[union-attr]
            self.texts.append(execution.explainString(explain))
        self.texts.append(repr(frame))

    def of_error(self, frame: DataFrame) -> str:
        """Add the text of an error, and return it."""
        with pytest.raises(PySparkException) as refused:
            frame.collect()
        self.texts.append("".join(traceback.format_exception(refused.value)))
        return str(refused.value)

    def of_session(self) -> None:
        """Add the web UI, its REST API and the event log."""
        app = rest_api(self.spark)
        pages = ["jobs/", "SQL/", "environment/", "executors/", f"{app}/jobs", f"{app}/stages", f"{app}/environment"]
        self.texts.extend(read(self.spark, page) for page in pages)
        shown = queries(self.spark)
        own = [each["id"] for each in shown if each["id"] >= self.since]
        self.texts.extend([json.dumps(shown), *(read(self.spark, f"SQL/execution/?id={each}") for each in own)])
        events = Path(urlsplit(self.spark.conf.get("spark.eventLog.dir")).path)
        self.texts.extend(path.read_text() for path in events.rglob("*") if path.is_file() and path.suffix != ".crc")

    def check(self) -> None:
        """Fail if a text contains a secret, or none is the event log."""
        assert any("SparkListenerApplicationStart" in text for text in self.texts)
        found = [
            text[max(0, at.start() - 200) : at.end()] for text in self.texts for at in re.finditer("moonstone", text)
        ]
        assert not found, found[:3]


def rest_api(spark: SparkSession) -> str:
    """The path of the session's REST API."""
    return f"api/v1/applications/{spark.sparkContext.applicationId}"


def queries(spark: SparkSession) -> list[dict[str, Any]]:
    """The queries that the REST API lists, with their plans."""
    return json.loads(read(spark, f"{rest_api(spark)}/sql?details=true&planDescription=true&length=10000"))


def read(spark: SparkSession, page: str) -> str:
    """A page of the session's web UI."""
    with urlopen(f"http://127.0.0.1:{urlsplit(spark.sparkContext.uiWebUrl).port}/{page}", timeout=30) as answer:
        return answer.read().decode()


@pytest.fixture
def shown(spark: SparkSession) -> Shown:
    """The texts that Spark shows during the test."""
    return Shown(spark, since=1 + max((each["id"] for each in queries(spark)), default=-1))


@pytest.mark.night
@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_log_in_works_and_shows_no_secret(
    spark: SparkSession, shown: Shown, ways: dict[str, dict[str, str]], way: str
) -> None:
    """A password in the URL, in an option or in a reference is used by tasks, and shown nowhere."""
    frame = spark.read.format("mqplug").options(**ways[way]).option("subscribe", "orders").load()
    assert frame.count() == 10
    shown.of_frame(frame)
    missing = spark.read.format("mqplug").options(**ways[way]).option("subscribe", "nowhere").load()
    assert "TopicNotFound" in shown.of_error(missing)
    shown.of_session()
    shown.check()


@pytest.mark.night
def test_a_view_in_sql_shows_no_secret(spark: SparkSession, shown: Shown, ways: dict[str, dict[str, str]]) -> None:
    """SQL's description of a view, and the log of the statements that created it, hide its options."""
    options = ", ".join(f"`{name}` '{text}'" for name, text in ways["option"].items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW secured USING mqplug OPTIONS ({options}, subscribe 'orders')")
    frame = spark.table("secured")
    assert frame.count() == 10
    shown.of_frame(frame)
    shown.texts.extend(str(row) for row in spark.sql("DESCRIBE EXTENDED secured").collect())
    shown.of_session()
    shown.check()


@pytest.mark.night
@pytest.mark.parametrize("name", ["kafka.ssl.key.pem", "kafka.sasl.oauthbearer.config"])
def test_a_secret_under_any_name_is_shown_nowhere(spark: SparkSession, shown: Shown, name: str) -> None:
    """Options whose names do not look secret to Spark are in no plan and no error either."""
    source = spark.read.format("mqplug").option("kafka.bootstrap.servers", "127.0.0.1:1").option(name, KEY)
    frame = source.option("subscribe", "orders").load()
    shown.of_error(frame)
    shown.of_session()
    shown.check()


@pytest.mark.night
def test_a_checkpoint_holds_no_secret(
    spark: SparkSession, ways: dict[str, dict[str, str]], shown: Shown, tmp_path: Path
) -> None:
    """A stream's checkpoint holds positions, but no connection settings."""
    source = spark.readStream.format("mqplug").options(**ways["url"]).option("subscribe", "orders")
    frame = source.option("startingOffsets", "earliest").load()
    out = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = process_all(out.start)
    progress = json.dumps([each.json for each in query.recentProgress])
    assert "numInputRows" in progress
    files = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert any("orders" in path.read_text(errors="replace") for path in files)
    shown.texts.extend([progress, *(path.read_text(errors="replace") for path in files)])
    shown.of_session()
    shown.check()
