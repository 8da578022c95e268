"""The Pulsar cluster in deploy/ has the settings of mqplug's own tests and survives the loss of a bookie."""

from __future__ import annotations

import pytest
from compose_files import environment, load_compose
from page_steps import file_of_page, steps

import mqplug
from mqplug_devbrokers import MissingTool, PulsarSecurity

FILES = ("pulsar.compose.yaml", "pulsar-secured.compose.yaml")


def test_the_secured_settings_are_those_of_devbrokers(tmp_path):
    """The secured broker has each setting of mqplug's own tests except passwords, with its own paths and ports."""
    from mqplug_devbrokers import SecuredPulsar

    tested = SecuredPulsar(PulsarSecurity(authorize=True), tmp_path, {}, ()).settings()
    settings = environment(load_compose(FILES[1])["services"]["broker"])
    assert settings.keys() == tested.keys() - {"basicAuthConf"}
    assert settings["authenticationProviders"] in tested["authenticationProviders"].split(",")
    of_its_place = {name for name, value in settings.items() if "/pulsar/secrets/" in value or name.endswith("PortTls")}
    same = settings.keys() - of_its_place - {"authenticationProviders"}
    assert {name: settings[name] for name in same} == {name: tested[name] for name in same}
    assert {"authenticationEnabled", "authorizationEnabled", "superUserRoles"} < same


@pytest.fixture
def pulsar(tmp_path):
    """The secured services, running."""
    from pulsar_processes import PulsarProcesses

    try:
        made = PulsarProcesses(load_compose(*FILES), tmp_path)
    except MissingTool as error:
        pytest.skip(str(error))
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.mark.night
@pytest.mark.timeout(400)  # ten Java processes start one after the other, each with a deadline
def test_a_secured_cluster_outlives_a_bookie(pulsar):
    """With the page's roles, tokens and configuration, sends succeed and no message is lost when a bookie dies."""
    administrator = {"service_url": "pulsar://localhost:6650", "admin_url": "http://localhost:8080"}
    addresses = {name: pulsar.here(url) for name, url in administrator.items()}
    with mqplug.connect("pulsar", **addresses, token_file=str(pulsar.secrets / "admin.token"), timeout=60) as admin:
        admin.create_topic("orders", timeout=60)
    grant, token = steps("pulsar role")
    pulsar.carry_out(grant)
    (pulsar.root / "token").write_text(pulsar.carry_out(token))
    with mqplug.connect(configuration(pulsar), timeout=60) as mq, mq.producer("orders") as out:
        sent = [out.send(b"all are up", timeout=60)]
        pulsar.kill("bookie-2")
        sent += [out.send(b"one is down", timeout=60) for _ in range(3)]
        with mq.consumer("orders", group="billing", until=mqplug.LATEST) as orders:
            assert [message.id for message in orders] == sent
        with pytest.raises(mqplug.AccessDenied):
            mq.create_topic("more")


def configuration(pulsar):
    """Write the page's configuration file with the addresses and the files of this host. Return its path."""
    text = pulsar.here(file_of_page("pulsar")).replace("/etc/mqplug/ca.pem", str(pulsar.secrets / "ca.pem"))
    file = pulsar.root / "mqplug.toml"
    file.write_text(text.replace("/etc/mqplug/token", str(pulsar.root / "token")))
    return file
