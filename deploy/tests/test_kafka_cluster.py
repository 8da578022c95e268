"""The Kafka cluster in deploy/ has the settings of devbrokers' cluster and survives the loss of a node."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
from compose_files import environment, kafka_properties, load_compose
from kafka_processes import KafkaProcesses, devbrokers_properties, wait_until_granted, wait_until_in_sync
from page_steps import PAGE, file_of_page, steps

import mqplug
from mqplug_devbrokers import KafkaSecurity, KafkaServer, MissingTool

FILES = ("kafka.compose.yaml", "kafka-secured.compose.yaml")
VARIABLES = {"KAFKA_CLUSTER_ID": "x"}
OF_ITS_PLACE = {
    "node.id", "controller.quorum.voters", "listeners", "advertised.listeners", "listener.security.protocol.map",
    "inter.broker.listener.name", "log.dirs",
}  # fmt: skip
"""Settings of a single node, and settings with addresses and folders."""
FOR_TESTS = {
    # Small, and quick to start.
    "num.partitions", "offsets.topic.num.partitions", "transaction.state.log.num.partitions",
    "share.coordinator.state.topic.num.partitions", "num.network.threads", "num.io.threads", "background.threads",
    "num.recovery.threads.per.data.dir", "log.cleaner.dedupe.buffer.size", "log.cleaner.threads",
    # Quick to detect events, or only when a test chooses.
    "group.initial.rebalance.delay.ms", "group.min.session.timeout.ms", "group.consumer.min.session.timeout.ms",
    "group.consumer.min.heartbeat.interval.ms", "group.consumer.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms", "broker.session.timeout.ms", "broker.heartbeat.interval.ms",
    "controller.quorum.election.timeout.ms", "controller.quorum.fetch.timeout.ms",
    "controller.quorum.election.backoff.max.ms", "replica.lag.time.max.ms", "auto.leader.rebalance.enable",
    # Retention at the time a test chooses.
    "log.retention.ms", "log.retention.check.interval.ms", "log.initial.task.delay.ms", "log.segment.delete.delay.ms",
    "log.cleaner.backoff.ms",
}  # fmt: skip
"""Settings of devbrokers that no cluster in production should have."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """The settings of a node in devbrokers' cluster."""
    return devbrokers_properties(tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("node", ["kafka-1", "kafka-2", "kafka-3"])
def test_the_settings_are_those_of_devbrokers(recipe, node):
    """The compose file has exactly the settings of the recipe, except those that only suit tests."""
    settings = kafka_properties(environment(load_compose(FILES[0], **VARIABLES)["services"][node]))
    assert {key: value for key, value in settings.items() if key not in OF_ITS_PLACE} == {
        key: value for key, value in recipe.items() if key not in OF_ITS_PLACE | FOR_TESTS
    }
    assert recipe.keys() > FOR_TESTS
    assert settings["node.id"] == node[-1]
    assert settings["controller.quorum.voters"].count("@") == recipe["controller.quorum.voters"].count("@") == 3


def test_the_version_is_the_one_that_is_tested():
    """The image has the version that mqplug's own tests run on."""
    images = {each["image"] for each in load_compose(FILES[0], **VARIABLES)["services"].values()}
    assert images == {f"apache/kafka:{KafkaServer(version='4.3').version}"}
    assert set(re.findall(r"apache/kafka:[\d.]+", PAGE.read_text())) == images


def test_the_secured_settings_are_those_of_devbrokers(tmp_path):
    """The secured nodes have the authorizer, the super users and the login modules of mqplug's own tests."""
    from mqplug_devbrokers import SecuredListeners

    listeners = SecuredListeners(KafkaSecurity(authorize=True), tmp_path, wire_port=0)
    tested = {key.replace("sasl_tls", "client"): value for key, value in listeners.settings().items()}
    settings = kafka_properties(load_compose(FILES[1])["services"]["kafka-1"]["environment"])
    same = settings.keys() - OF_ITS_PLACE - {"ssl.keystore.location", "sasl.enabled.mechanisms"}
    assert {key: settings[key] for key in same} == {key: tested[key] for key in same}
    assert {"authorizer.class.name", "super.users"} < same
    assert settings["sasl.enabled.mechanisms"] in tested["listener.name.client.sasl.enabled.mechanisms"].split(",")


@pytest.fixture
def kafka(tmp_path):
    """The secured nodes, running."""
    try:
        made = KafkaProcesses(load_compose(*FILES, **VARIABLES), tmp_path)
    except MissingTool as error:
        pytest.skip(str(error))
    try:
        made.start()
        wait_until_in_sync(made)
        yield made
    finally:
        made.close()


@pytest.mark.night
@pytest.mark.timeout(400)  # a dozen Java processes start one after the other, each with a deadline
def test_a_secured_cluster_outlives_a_node(kafka, monkeypatch):
    """With the page's users, rights and configuration, sends succeed and no message is lost when a node dies."""
    monkeypatch.setenv("ORDERS_PASSWORD", "s3cret")
    with mqplug.connect("kafka", servers=kafka.address("INTERNAL"), timeout=60) as admin:
        admin.create_topic("orders", partitions=3)
        assert len(admin.partitions("orders")) == 3
    for line in steps("kafka user"):
        kafka.carry_out(line.replace("$ORDERS_PASSWORD", "s3cret"))
    wait_until_granted(kafka)
    with mqplug.connect(configuration(kafka)) as mq, mq.producer("orders") as out:
        sent = [out.send(b"all are up", partition=each) for each in range(3)]
        kafka.kill("kafka-2")
        sent += [out.send(b"one is down", partition=each, timeout=60) for each in range(3)]
        kafka.start("kafka-2")
        wait_until_in_sync(kafka)
        with mq.consumer("orders", group="billing", until=mqplug.LATEST) as orders:
            assert {message.id for message in orders} == set(sent)
        with pytest.raises(mqplug.AccessDenied):
            mq.create_topic("more")


def configuration(kafka):
    """Write the page's configuration file with the addresses and the authority of this host. Return its path."""
    text = file_of_page("kafka")
    assert len(tomllib.loads(text)["kafka"]["servers"]) == len(kafka.nodes)
    file = kafka.root / "mqplug.toml"
    servers = json.dumps(kafka.address("CLIENT"))
    text = re.sub(r"(?m)^servers = .*$", f"servers = {servers}", text)
    file.write_text(text.replace("/etc/mqplug/ca.pem", str(kafka.authority.ca_file)))
    return file
