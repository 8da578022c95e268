"""The files of a store: its identity is always verified, and no foreign file is used as one of them."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from refused_openings import connect, untouched
from rocksmq_stores import serving
from store_seam import (
    BALLAST,
    DATABASE,
    HAND_OUTS,
    IDENTITY,
    MEMBERS,
    OWNER,
    STAGING,
    WITNESS,
    Identity,
    check_store,
    repair_store,
    restore_backup,
    socket_path,
)

import mqplug
from mqplug import ConfigError, Corrupt

# the identity --------------------------------------------------------------------------------------------------

NAME = Identity("0b8a3bd2-3bfb-4b3a-9e75-8a7ee2f9e7a5")
SIZE = len(json.dumps({**NAME._asdict(), "checksum": 4_294_967_295}, separators=(",", ":")))
DAMAGES = [*(f"flipped {at}" for at in range(SIZE)), "cut 1", "cut 30", "cut -1", "emptied", "zeros"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, mqplug.MessageId]:
    """A closed store, and an id of a message in it."""
    path = tmp_path_factory.mktemp("named") / "store"
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.create_topic("orders")
        with mq.producer("orders") as out:
            return path, out.send(b"a")


@pytest.fixture
def named(made: tuple[Path, mqplug.MessageId]) -> Iterator[tuple[Path, mqplug.MessageId]]:
    """The same store, whose identity file is restored afterwards."""
    raw = (made[0] / IDENTITY).read_bytes()
    yield made
    (made[0] / IDENTITY).write_bytes(raw)


def ids(path: Path) -> list[mqplug.MessageId]:
    """Return the ids of all messages, after checking that each one can be found."""
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        found = [message.id for message in mq.read("orders")]
        for known in found:
            with mq.consumer("orders", start=mqplug.before(known)) as reader:
                assert reader.receive(30).id == known  # type: ignore[union-attr]
    return found


def damaged(path: Path, how: str) -> bytes:
    """Damage the identity file of a store, and return its original content."""
    file = path / IDENTITY
    raw = file.read_bytes()
    kind, _, at = how.partition(" ")
    if kind == "flipped":
        place = int(at) % len(raw)
        file.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
    elif kind == "cut":
        file.write_bytes(raw[: int(at) % len(raw)])
    else:
        file.write_bytes(b"" if kind == "emptied" else b"\0" * len(raw))
    return raw


@pytest.mark.parametrize("how", DAMAGES)
def test_a_changed_name(named: tuple[Path, mqplug.MessageId], how: str) -> None:
    """Whichever byte of the identity file changes, the store is ``Corrupt``, and nothing is changed."""
    path, _ = named
    damaged(path, how)
    with untouched(path), pytest.raises(Corrupt, match=f"{IDENTITY}.*mqplug rocksmq repair"):
        connect(path)


@pytest.mark.parametrize("how", ["flipped 9", f"flipped {SIZE - 5}", "cut 30", "emptied"])
def test_a_repaired_name(named: tuple[Path, mqplug.MessageId], how: str) -> None:
    """A check reports a changed identity, a repair corrects it, and earlier ids remain valid."""
    path, known = named
    raw = damaged(path, how)
    (finding,) = check_store(path).findings
    assert IDENTITY in finding.what
    assert len(repair_store(path).report.findings) == 1
    assert (path / IDENTITY).read_bytes() == raw
    assert check_store(path).sound
    assert ids(path) == [known]


def test_another_name(named: tuple[Path, mqplug.MessageId]) -> None:
    """An identity file with another store's id, as the first version could have, is ``Corrupt`` as well."""
    path, known = named
    raw = (path / IDENTITY).read_bytes()
    for said in (b'{"id": "' + NAME.id.encode() + b'", "format": 1}', json.dumps({**NAME._asdict()}).encode()):
        (path / IDENTITY).write_bytes(said)
        with pytest.raises(Corrupt, match=f"has the id {NAME.id}, but the database has"):
            connect(path)
        assert "the database has" in check_store(path).findings[0].what
        repair_store(path)
        assert (path / IDENTITY).read_bytes() == raw
    assert ids(path) == [known]


def test_no_name(named: tuple[Path, mqplug.MessageId]) -> None:
    """If the identity file is gone, a check reports it, and the next opener restores it from the database."""
    path, known = named
    raw = (path / IDENTITY).read_bytes()
    (path / IDENTITY).unlink()
    assert "is missing" in check_store(path).findings[0].what
    assert ids(path) == [known]
    assert (path / IDENTITY).read_bytes() == raw


def test_a_name_without_a_checksum(named: tuple[Path, mqplug.MessageId]) -> None:
    """A store whose identity has no checksum, from an earlier version, opens as it is."""
    path, known = named
    raw = (path / IDENTITY).read_bytes()
    said = json.loads(raw)
    (path / IDENTITY).write_text(json.dumps({"id": said["id"], "format": 1}))
    assert check_store(path).sound
    assert ids(path) == [known]


def test_a_changed_name_of_an_open_store(path: Path) -> None:
    """A check reports a changed identity of a store that another process has open."""
    with serving(path):
        damaged(path, "flipped 20")
        command = [sys.executable, "-m", "mqplug_cli", "rocksmq", "check", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, IDENTITY in done.stdout) == (1, True), done.stderr


# links -------------------------------------------------------------------------------------------------------

FILES = (OWNER, WITNESS, IDENTITY, BALLAST, MEMBERS, HAND_OUTS)


def opened(path: Path, **settings: bool) -> None:
    """Open a store, and close it."""
    mqplug.connect("rocksmq", path=str(path), **settings).close()


def put_there(path: Path, kind: str, target: Path) -> None:
    """Put something in the place of a store's file."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(target)
    elif kind == "hard link":
        path.hardlink_to(target)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "directory"])
@pytest.mark.parametrize("name", FILES)
def test_something_else(closed: Path, tmp_path: Path, name: str, kind: str) -> None:
    """Anything but a regular file of the store is refused by name, at once, and its target is not changed."""
    mine = tmp_path / "mine"
    mine.write_bytes((closed / name).read_bytes() if name == IDENTITY else b"precious")
    put_there(closed / name, kind, mine)
    before = mine.read_bytes()
    with pytest.raises(ConfigError, match=f"{name} is a {kind.split()[-1]}.*remove it"):
        connect(closed)
    assert mine.read_bytes() == before


@pytest.mark.parametrize("name", [*FILES, "room", f"{IDENTITY}.new"])
@pytest.mark.parametrize("there", [True, False])
def test_a_prepared_directory(tmp_path: Path, name: str, there: bool) -> None:
    """Links in a directory that becomes a store are not followed: no file is written or created through them."""
    path, target = tmp_path / "store", tmp_path / "target"
    path.mkdir(0o700)
    if there:
        target.write_text("precious")
    (path / name).symlink_to(target)
    if name in FILES:
        with pytest.raises(ConfigError, match=f"{name} is a link"):
            connect(path)
    else:  # a new file replaces the link
        opened(path)
    assert not there or target.read_text() == "precious"
    assert there or not target.exists()


@pytest.mark.parametrize("name", [DATABASE, STAGING, f"{DATABASE}/LOG", f"{DATABASE}/CURRENT"])
def test_a_link_to_a_directory(closed: Path, tmp_path: Path, name: str) -> None:
    """A link in place of a directory of the store, or of one of RocksDB's files, is refused."""
    elsewhere = tmp_path / "elsewhere"
    if (closed / name).exists():
        (closed / name).rename(elsewhere)
    else:
        elsewhere.mkdir()
    (closed / name).symlink_to(elsewhere)
    with pytest.raises(ConfigError, match=f"{name} is a link"):
        connect(closed)


def test_the_path_is_a_link(closed: Path, tmp_path: Path) -> None:
    """The path of a store, of a backup and of a restored store may itself be a link."""
    (tmp_path / "link").symlink_to(closed)
    opened(tmp_path / "link", create=False)
    (tmp_path / "target").mkdir()
    (tmp_path / "restored").symlink_to(tmp_path / "target")
    restore_backup(tmp_path / "link", tmp_path / "restored")
    opened(tmp_path / "restored", create=False)


def test_a_backup_with_links(closed: Path, tmp_path: Path) -> None:
    """A backup that contains links is not restored: they could lead to any file of the user who restores it."""
    (tmp_path / "mine").write_text("precious")
    (closed / DATABASE / "LOG.old.1").symlink_to(tmp_path / "mine")
    with pytest.raises(ConfigError, match=r"LOG\.old\.1 is a link"):
        restore_backup(closed, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()


# write permissions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
def test_others_may_write(closed: Path, mode: int) -> None:
    """A directory that all users may write into is refused, with a fix; so is one for a new store."""
    closed.chmod(mode)
    with untouched(closed), pytest.raises(ConfigError, match=r"can be written by all users.*chmod go-w"):
        connect(closed)
    fresh = closed.parent / "fresh"
    fresh.mkdir()
    fresh.chmod(mode)
    with untouched(fresh), pytest.raises(ConfigError, match="can be written by all users"):
        connect(fresh)
    opened(fresh / "inside")


def test_a_group_may_write(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory that a group may write into is refused, unless it is the private group of the user."""
    closed.chmod(0o770)
    monkeypatch.setattr("grp.getgrgid", lambda _: _Group("staff", []))
    with pytest.raises(ConfigError, match="can be written by other users"):
        connect(closed)
    mine = pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr("grp.getgrgid", lambda _: _Group(mine, [mine, "somebody"]))
    with pytest.raises(ConfigError, match="can be written by other users"):
        connect(closed)
    monkeypatch.setattr("grp.getgrgid", lambda _: _Group(mine, []))
    opened(closed)


class _Group:
    def __init__(self, name: str, members: list[str]) -> None:
        self.gr_name, self.gr_mem = name, members


def test_modes(path: Path, tmp_path: Path) -> None:
    """A store's files are for its user only, whatever the umask; so are backups."""
    before = os.umask(0)
    try:
        opened(path)
        restore_backup(path, tmp_path / "backup")
    finally:
        os.umask(before)
    for store in (path, tmp_path / "backup"):
        assert stat.S_IMODE(store.stat().st_mode) == 0o700
        for name in FILES:
            if (store / name).exists():
                assert stat.S_IMODE((store / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("how", ["open to all", "link"])
def test_a_directory_for_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """A directory for sockets that others may enter, or that is a link, is skipped."""
    offered = tmp_path / "run"
    if how == "link":
        (tmp_path / "real").mkdir(0o700)
        offered.symlink_to(tmp_path / "real")
    else:
        offered.mkdir()
        offered.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(offered))
    assert not socket_path(tmp_path).is_relative_to(offered)
