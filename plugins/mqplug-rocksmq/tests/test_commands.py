"""``mqplug rocksmq stats | check | repair | compact | backup | restore``: their output and exit codes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from rocksmq_stores import OpenStore, files_left, in_a_namespace, line, new_log, put, python, serving
from store_seam import OWNER, Store, StoredPosition, check_store, repair_store

import mqplug
import mqplug_rocksmq
from mqplug import Error
from mqplug_rocksmq import RocksMQStatistics


def run(*arguments: object) -> Result:
    """Run a command, and raise its errors."""
    group = click.Group("rocksmq", mqplug_rocksmq.mqplug_commands())
    return CliRunner().invoke(group, [str(each) for each in arguments], catch_exceptions=False)


@pytest.fixture
def closed(path: Path, open_store: OpenStore) -> Path:
    """A closed store with a topic, a group and a hundred messages."""
    fill(open_store(sync="os"))
    return path


def fill(store: Store) -> None:
    """Store a hundred messages and a group's position, and close."""
    log = new_log(store)
    for _ in range(10):
        put(store, log, *[b"x" * 1000] * 10)
    store.groups.store("billing", {log: StoredPosition(40)}, 10)
    store.close(10)


@pytest.fixture(params=["closed", "open elsewhere"])
def either(request: pytest.FixtureRequest, closed: Path) -> Iterator[Path]:
    """The same store: closed, or open in another process."""
    if request.param == "closed":
        yield closed
    else:
        with serving(closed):
            yield closed


def test_stats(either: Path) -> None:
    """`stats` shows topics, and groups with their lag, also of a store that another process has open."""
    lines = [line.split() for line in run("stats", either).output.splitlines()]
    assert ["orders", "0", "0", "100"] in [line[:4] for line in lines]
    assert ["billing", "orders", "0", "40", "60", "0"] in lines


READ_ONLY = """
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
for each in check stats restore; do
    "$2" -m mqplug_cli rocksmq $each "$1/store" $([ $each = restore ] && echo "$3")
done
"$2" -m mqplug_cli rocksmq repair "$1/store" || echo "repair ends with $?"
"""


@pytest.mark.parametrize("unfinished", [False, True])
def test_a_read_only_file_system(path: Path, tmp_path: Path, unfinished: bool) -> None:
    """Commands that only read work on a read-only file system, even for a killed store and one without ``owner``."""
    folder = tmp_path / "medium"
    with python(HELD, folder / "store") as process:
        assert line(process) == "ready"
        if unfinished:
            process.kill()
        else:
            assert process.communicate("\n", timeout=60)
            (folder / "store" / OWNER).unlink()
    said = in_a_namespace(READ_ONLY, folder, sys.executable, tmp_path / "restored")
    assert "sound" in said
    assert ["orders", "0", "0", "10"] in [line.split()[:4] for line in said.splitlines()]
    assert "restored to" in said
    assert "repair ends with 1" in said
    with mqplug.connect("rocksmq", path=str(tmp_path / "restored")) as mq:
        assert mq.watermarks("orders")[0].count == 10


HELD = """
with mqplug.connect("rocksmq", path=str(path)) as mq:
    mq.create_topic("orders")
    with mq.producer("orders") as out:
        out.send_many([mqplug.Record(b"x")] * 10)
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_what_cannot_be_read_is_no_damage(closed: Path) -> None:
    """A process that can open too few files reports that, and finds no damage."""
    errors, findings = [], []
    for more in range(8):
        for look in (check_store, lambda path: repair_store(path).report):
            with files_left(more):
                try:
                    findings += look(closed).findings
                except Error as error:
                    errors.append(error.message)
    assert findings == []
    assert len(errors) > 2
    assert [error for error in errors if "ran out of file descriptors" not in error] == []


def test_stats_for_programs(either: Path) -> None:
    """`stats --json` has the same values as numbers."""
    found = json.loads(run("stats", either, "--json").output)
    assert found["partitions"][0]["high"] == 100
    assert found["groups"][0]["lag"] == 60
    assert found["disk"] > 0
    assert {"p50", "p99", "longest", "count"} <= set(found["writes"])


def test_stats_changes_nothing(closed: Path) -> None:
    """`stats` and `check` of a closed store leave its tables as they are."""
    before = {each.name for each in (closed / "rocksdb").glob("*.sst")}
    run("stats", closed)
    run("check", closed)
    assert {each.name for each in (closed / "rocksdb").glob("*.sst")} == before


def test_check_sound(either: Path) -> None:
    """`check` of a sound store reports that with exit code 0, and leaves no files."""
    result = run("check", either)
    assert result.output == "sound (1 topics, 1 groups, 100 messages in 10 pages)\n"
    assert result.exit_code == 0
    assert [each.name for each in either.parent.iterdir()] == ["store"]


def test_check_and_repair(path: Path, closed: Path, open_store: OpenStore) -> None:
    """`check` of a damaged store names the missing messages, with exit code 1; after `repair` the store is sound."""
    store = open_store(sync="os")
    store.engine.change(lambda changes: changes.drop_pages(0, 20, 21), 10)
    store.close(10)
    result = run("check", path)
    assert result.exit_code == 1
    assert result.output.startswith("topic 'orders', partition 0: messages are missing: 20 to 29\n")
    result = run("repair", path)
    assert result.exit_code == 0
    assert "repaired: 90 messages are kept, 10 are gone" in result.output
    assert str(path / "damaged-1") in result.output
    assert run("check", path).exit_code == 0


def test_check_and_repair_for_programs(path: Path, closed: Path, open_store: OpenStore) -> None:
    """`--json` prints findings as objects."""
    store = open_store(sync="os")
    store.engine.change(lambda changes: changes.drop_pages(0, 20, 21), 10)
    store.close(10)
    wanted = {"what": "messages are missing", "topic": "orders", "partition": 0, "start": 20, "stop": 30}
    found = json.loads(run("check", path, "--json").output)
    assert (found["sound"], found["findings"]) == (False, [wanted])
    done = json.loads(run("repair", path, "--json", "--no-backup").output)
    assert (done["sound"], done["damaged"], done["findings"]) == (True, None, [wanted])


def test_compact(either: Path) -> None:
    """`compact` reports the store's size before and now."""
    assert "before" in run("compact", either).output


def test_compact_gives_room_back(path: Path, open_store: OpenStore) -> None:
    """After `compact`, nothing of the trimmed messages is left on disk."""
    store = open_store(sync="os", retention_interval=3600)
    log = new_log(store)
    for number in range(100):
        put(store, log, (b"%d" % number) * 50_000)
    store.engine.pages.flush()
    store.close(10)
    with mqplug.connect("rocksmq", path=str(path)) as mq:
        mq.trim("orders", {0: mq.watermarks("orders")[0].high})
    run("compact", path)
    found = json.loads(run("stats", path, "--json").output)
    assert found["disk"] < 1_000_000


def test_backup_and_restore(either: Path, tmp_path: Path) -> None:
    """`backup` copies a store, even one that another process has open; `restore` makes a store of the copy."""
    assert run("backup", either, tmp_path / "backup").exit_code == 0
    assert run("restore", tmp_path / "backup", tmp_path / "again").exit_code == 0
    with mqplug.connect("rocksmq", path=str(tmp_path / "again")) as mq:
        assert mq.lag("orders", group="billing") == {0: 60}
        assert len(list(mq.read("orders"))) == 100


def test_backup_to_where_something_is(either: Path, tmp_path: Path) -> None:
    """`backup` refuses a target that exists, whichever process has the store open."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(mqplug.ConfigError, match="not an empty directory"):
        run("backup", either, tmp_path / "taken")


def test_urls(closed: Path) -> None:
    """A store is named by its path or its URL; other URLs are refused."""
    assert run("stats", f"rocksmq://{closed}").exit_code == 0
    assert run("stats", "kafka://localhost").exit_code == 2


@pytest.mark.parametrize("command", ["stats", "check", "repair", "compact", "backup"])
def test_no_store(tmp_path: Path, command: str) -> None:
    """Without a store, each command reports that, and creates none."""
    missing = tmp_path / "missing"
    more = [tmp_path / "target"] if command == "backup" else []
    with pytest.raises(mqplug.ConfigError, match="there is no store at"):
        run(command, missing, *more)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", [["topics"], ["watermarks"], ["doctor"]])
def test_looking_makes_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: list[str]) -> None:
    """General commands of mqplug report that there is no store at a misspelt path, and leave no trace there."""
    from mqplug_cli import run_command

    assert run_command([*verb, f"rocksmq://{tmp_path}/typo", *(["orders"] if verb == ["watermarks"] else [])]) == 1
    assert "there is no store at" in "".join(capsys.readouterr())
    assert list(tmp_path.iterdir()) == []


def test_errors_are_one_line(tmp_path: Path) -> None:
    """On the command line an error is one line, with exit code 1."""
    code = (
        "from mqplug_cli import main\nsys.argv[1:] = ['rocksmq', 'stats', str(path)]\nsys.stderr = sys.stdout\nmain()"
    )
    with python(code, tmp_path / "missing") as process:
        out, _ = process.communicate(timeout=60)
    assert out == f"error: there is no store at {tmp_path / 'missing'}. Check the path\n"
    assert process.returncode == 1


def test_statistics_of_a_client(either: Path) -> None:
    """A client returns the statistics of its store, whichever process has it open."""
    with mqplug.connect("rocksmq", path=str(either)) as mq:
        with mq.producer("orders") as out:
            out.send(b"x")
        found = mq.unwrap(RocksMQStatistics)
    assert found is not None
    assert [(each.low, each.high) for each in found.partitions] == [(0, 101)]
    assert [each.lag for each in found.groups] == [61]
    assert found.commits.count >= 1
    assert 0 < found.commits.percentile(50) <= found.commits.longest
    assert RocksMQStatistics.from_json(found.as_json()) == found
