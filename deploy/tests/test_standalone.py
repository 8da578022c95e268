"""The service of a standalone host: its unit is valid, it works as documented, and the page's steps work."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from page_steps import steps
from standalone_host import UNIT, Host, read_unit

import mqplug

SYSTEMD = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
FULL_DISK = """
mount -t tmpfs -o size=48m,mode=0700 tmpfs "$1"
exec "$2" "$3" "$1"
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit with an existing program."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/mqplug/bin/mqplug", sys.executable))
    return unit


@SYSTEMD
def test_systemd_accepts_the_unit(installed: Path):
    """`systemd-analyze verify` accepts each setting of the unit and its values."""
    done = subprocess.run(["systemd-analyze", "verify", installed], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]) == (0, [])


@SYSTEMD
def test_the_service_is_confined(installed: Path):
    """`systemd-analyze security` rates the exposure of the service below 1.5 of 10."""
    command = ["systemd-analyze", "security", "--offline=yes", "--threshold=15", installed]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:]


def test_the_folders_of_the_unit_agree():
    """The service may write to its store, its socket and the page's backups, and other users have no access."""
    unit = read_unit()["Service"]
    command = unit["ExecStart"].split()
    assert command[:3] == ["/opt/mqplug/bin/mqplug", "rocksmq", "serve"]
    assert command[3].startswith(f"/var/lib/{unit['StateDirectory']}/")
    assert unit["Environment"] == f"XDG_RUNTIME_DIR=/run/{unit['RuntimeDirectory']}"
    assert unit["ReadWritePaths"].removeprefix("-") in " ".join(steps("backup"))
    assert {unit["StateDirectoryMode"], unit["RuntimeDirectoryMode"]} == {"0700"}


def test_the_service_sees_the_boot_id():
    """The unit leaves /proc visible, which a store needs to distinguish a crash of the host from one of the process."""
    assert "ProcSubset" not in read_unit()["Service"]


def test_the_service_ends_in_order(host: Host):
    """On SIGTERM the service exits with status 0."""
    assert host.stop() == 0


def send(host: Host, *values: bytes) -> None:
    """Send messages as a program on the host."""
    with mqplug.connect("rocksmq", path=str(host.store)) as mq:
        mq.create_topic("orders", exist_ok=True)
        with mq.producer("orders") as out:
            out.send_many(list(values))


def stored(host: Host) -> list[bytes | None]:
    """Read the stored messages as a program on the host."""
    with mqplug.connect("rocksmq", path=str(host.store)) as mq:
        return [message.value for message in mq.read("orders")]


def test_a_killed_service_starts_again(host: Host):
    """After SIGKILL the service starts again and serves all stored messages."""
    send(host, b"one", b"two")
    assert host.kill() == -9
    assert "STATUS=serving" in host.start()
    assert stored(host) == [b"one", b"two"]


def test_a_service_waits_for_the_program_that_took_over(host: Host):
    """A restarted service waits while a program owns the store that it took over after a crash of the service."""
    with mqplug.connect("rocksmq", path=str(host.store)) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            out.send(b"one")
            host.kill()
            out.send(b"two")
            assert "STATUS=waiting" in host.start()
            out.send(b"three")
    assert stored(host) == [b"one", b"two", b"three"]
    assert host.stop() == 0


def test_backup_and_restore(host: Host):
    """The page's steps back up a store while the service runs, and restore its messages of that time."""
    send(host, b"one", b"two")
    host.carry_out("backup")
    send(host, b"three")
    assert "sound" in host.carry_out("restore")
    assert stored(host) == [b"one", b"two"]
    assert host.stop() == 0


@pytest.mark.night  # a backup and a restore run by day
def test_upgrade(host: Host):
    """The page's steps for an upgrade make a backup and keep all messages."""
    send(host, b"one", b"two")
    assert "sound" in host.carry_out("upgrade")
    assert host.upgrades == 1
    assert stored(host) == [b"one", b"two"]
    assert (host.store.parents[1] / "backups/before-upgrade").is_dir()


def test_what_to_watch(host: Host):
    """`stats --json` has the fields that the page recommends to watch, and `doctor` succeeds."""
    send(host, b"one")
    found = json.loads(mqplug_command("rocksmq", "stats", str(host.store), "--json"))
    assert {"disk", "commits", "delays", "stops", "partitions"} <= set(found)
    assert "low" in found["partitions"][0]
    assert "p99" in found["commits"]
    assert "rocksmq" in mqplug_command("doctor", f"rocksmq://{host.store}")


def mqplug_command(*arguments: str) -> str:
    """Run a command that must succeed. Return its output."""
    return subprocess.check_output([sys.executable, "-m", "mqplug_cli", *arguments], text=True, timeout=60)


def test_a_full_disk(tmp_path: Path):
    """On a full disk no stored message is lost, and after the page's steps sending works again."""
    space = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*space, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not allow users to create namespaces")
    program = Path(__file__).with_name("full_disk_program.py")
    command = [*space, "sh", "-euc", FULL_DISK, "sh", str(tmp_path), sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert (done.stdout.splitlines(), done.stderr) == (["kept: True", "again: kept", "stopped: 0"], "")
