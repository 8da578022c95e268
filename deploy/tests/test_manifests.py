"""Compose files and Kubernetes manifests follow their schemas and agree with each other."""

from __future__ import annotations

import json
import re
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml
from compose_files import DEPLOY, environment, kafka_properties, load_compose

KUBERNETES = sorted(DEPLOY.glob("*.kubernetes.yaml"))
COMPOSE = sorted(DEPLOY.glob("*.compose.yaml"))
VERSIONS = ("1.31", kubernetes_validate.latest_version())
VARIABLES = {"KAFKA_CLUSTER_ID": "x"}


def manifests(path: Path):
    """Return the manifests of a file."""
    return list(yaml.safe_load_all(path.read_text()))


def of_kind(path: Path, kind: str):
    """Return the only manifest of a kind."""
    (found,) = [each for each in manifests(path) if each["kind"] == kind]
    return found


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_files_follow_the_specification(path: Path):
    """A compose file follows the schema of the Compose specification, without other fields."""
    schema = json.loads(files("check_jsonschema").joinpath("builtin_schemas/vendor/compose-spec.json").read_text())
    found = load_compose(path.name, **VARIABLES)
    jsonschema.Draft7Validator(schema).validate(found)
    assert set(found) - {"name", "services", "volumes"} <= {key for key in found if key.startswith("x-")}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
def test_manifests_follow_the_schemas_of_kubernetes(path: Path, version: str):
    """Each manifest follows the schema of its kind, without unknown fields."""
    for each in manifests(path):
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
def test_selectors_choose_the_pods(path: Path):
    """Selectors match the labels of the pods in the same file."""
    text = path.read_text()
    for each in manifests(path):
        if each["kind"] in {"StatefulSet", "Deployment"}:
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"] == labels
    assert set(re.findall(r"app: ([\w-]+)", text)) <= {each["metadata"]["name"] for each in manifests(path)}


def test_kafka_has_the_same_settings_on_kubernetes():
    """The nodes on Kubernetes have the settings of the compose file, except addresses and folders."""
    of_its_place = {"node.id", "controller.quorum.voters", "listeners", "advertised.listeners", "log.dirs"}
    compose = kafka_properties(environment(load_compose("kafka.compose.yaml", **VARIABLES)["services"]["kafka-1"]))
    pod = of_kind(DEPLOY / "kafka.kubernetes.yaml", "StatefulSet")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    given = {each["name"]: each.get("value", "") for each in container["env"]}
    kubernetes = kafka_properties(given)
    assert {key: value for key, value in kubernetes.items() if key not in of_its_place} == {
        key: value for key, value in compose.items() if key not in of_its_place
    }
    exported = {f"{name}=" for name in ("KAFKA_NODE_ID", "KAFKA_ADVERTISED_LISTENERS")}
    assert all(f"export {each}" in container["args"][0] for each in exported)
    assert container["image"] == load_compose("kafka.compose.yaml", **VARIABLES)["services"]["kafka-1"]["image"]


def test_the_data_of_kafka_survive_a_pod():
    """Each Kafka node on Kubernetes stores its log in its own volume."""
    found = of_kind(DEPLOY / "kafka.kubernetes.yaml", "StatefulSet")["spec"]
    (container,) = found["template"]["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert [each["metadata"]["name"] for each in found["volumeClaimTemplates"]] == [mount["name"]]
    (logs,) = [each["value"] for each in container["env"] if each["name"] == "KAFKA_LOG_DIRS"]
    assert logs.startswith(f"{mount['mountPath']}/")  # not the volume itself, in which file systems keep lost+found


def test_the_pulsar_has_the_settings_that_promises_rest_on():
    """The broker and the bookies have the settings of devbrokers' Pulsar that mqplug's promises depend on."""
    from mqplug_devbrokers import PulsarServer

    conf = files("mqplug_devbrokers").joinpath("data", "pulsar-standalone.conf").read_text()
    tested = dict(re.findall(r"(?m)^(\w+)=(.*)$", conf))
    services = load_compose("pulsar.compose.yaml")["services"]
    broker = environment(services["broker"])
    same = {name for name in broker if name in tested and "Quorum" not in name and "Ensemble" not in name}
    own = {"clusterName", "advertisedAddress"}
    assert {name: broker[name] for name in same - own} == {name: tested[name] for name in same - own}
    assert len(same - own) == 8
    for bookie in ("bookie-1", "bookie-2", "bookie-3"):
        given = environment(services[bookie])
        assert given["advertisedAddress"] == bookie
        name = "dbStorage_readAheadCacheBatchBytesSize"
        assert given[f"PULSAR_PREFIX_{name}"] == tested[name]
    assert {each["image"] for each in services.values()} == {
        f"apachepulsar/pulsar:{PulsarServer(version='4.0').version}"
    }


@pytest.mark.parametrize(("kind", "service"), [("bookie", "bookie-1"), ("broker", "broker")])
def test_pulsar_has_the_same_settings_on_kubernetes(kind: str, service: str):
    """A bookie and a broker on Kubernetes have the settings of the compose file, except addresses and memory."""
    of_its_place = {"advertisedAddress", "PULSAR_MEM", "NAMESPACE"}
    compose = environment(load_compose("pulsar.compose.yaml")["services"][service])
    sets = [each for each in manifests(DEPLOY / "pulsar.kubernetes.yaml") if each["kind"] == "StatefulSet"]
    (container,) = [
        each["spec"]["template"]["spec"]["containers"][0] for each in sets if each["metadata"]["name"] == kind
    ]
    given = {each["name"]: each.get("value") for each in container["env"]}
    assert {key: value for key, value in given.items() if key not in of_its_place} == {
        key: value for key, value in compose.items() if key not in of_its_place
    }
    assert "export advertisedAddress=" in container["args"][0]


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the image's Containerfile."""
    lines = (DEPLOY / "Containerfile").read_text().replace("\\\n", "").splitlines()
    return [tuple(line.split(" ", 1)) for line in lines if line and not line.startswith("#")]


def test_the_image_installs_what_there_is():
    """The image installs distributions of this repository with existing extras, and runs as a plain user."""
    done = dict(instructions())
    assert [name for name, _ in instructions()] == ["FROM", "RUN", "ENV", "USER", "WORKDIR", "ENTRYPOINT", "CMD"]
    wanted = re.findall(r"(mqplug[\w-]*)(?:\[([\w,]+)\])?\"?(?= )", done["RUN"].partition("pip install")[2])
    wanted = [(name, extras) for name, extras in wanted if name != "mqplug" or extras]
    assert [name for name, _ in wanted] == ["mqplug", "mqplug-rocksmq", "mqplug-kafka", "mqplug-pulsar"]
    for name, extras in wanted:
        offered = set(distribution(name).metadata.get_all("Provides-Extra") or ())
        assert set(filter(None, extras.split(","))) <= offered
    assert done["USER"] == "1000"
    assert json.loads(done["ENTRYPOINT"]) == ["mqplug"]
    assert "mqplug" in distribution("mqplug-cli").entry_points.names
