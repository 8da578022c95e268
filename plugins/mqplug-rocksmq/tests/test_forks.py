"""Forks: a child can own a store if its parent had opened none before; otherwise it uses those of other processes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from owner_takeover import HOLDER, killed, owned_elsewhere, owns
from rocksmq_stores import line, python, serving

FORKS = """
import multiprocessing, time
multiprocessing.set_start_method("fork")

def connect(timeout=30.0, **settings):
    return mqplug.connect("rocksmq", path=str(path), timeout=timeout, **settings)

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def use_all(client, topic="orders"):
    client.create_topic(topic, exist_ok=True)
    with client.producer(topic) as out, client.consumer(topic, group="g", mode="shared") as jobs:
        sent = out.send(b"job")
        assert jobs.receive(10).id == sent
        with client.transaction(f"steps of {topic}") as step:
            step.send(b"more", topic=topic)
    assert [each.value for each in client.read(topic)] == [b"job", b"more"]
"""

OPENED_BEFORE = """
with mqplug.connect("rocksmq", path=str(path) + "-of-the-parent") as other:
    other.create_topic("orders")
"""


def test_a_child_cannot_own_a_store(path: Path) -> None:
    """If the parent had opened and closed a store, its child is refused at once, with what to do."""
    code = """
def work():
    began = time.monotonic()
    try:
        connect()
    except mqplug.ForkedClient as error:
        print(error.retryable, "spawn" in str(error), f"mqplug rocksmq serve {path}" in str(error), flush=True)
        print(time.monotonic() - began < 2, path.exists(), flush=True)

in_child(work)
use_all(connect())
print("the parent goes on", flush=True)
"""
    with python(FORKS + OPENED_BEFORE + code, path) as process:
        assert [line(process) for _ in range(3)] == ["False True True", "True False", "the parent goes on"]
        assert process.wait(30) == 0


def test_a_grandchild_cannot_own_a_store(path: Path) -> None:
    """A child of such a child is refused too."""
    code = "sys.exit(in_child(lambda: sys.exit(in_child(connect))))"
    with python(FORKS + OPENED_BEFORE + code, path) as process:
        assert line(process).startswith("ForkedClient")


def test_a_child_uses_the_store_of_its_parent(path: Path) -> None:
    """A child of the owner is a client of it, with all operations."""
    code = """
mq = connect()
print(in_child(lambda: use_all(connect())), in_child(lambda: use_all(connect(), "others")), flush=True)
use_all(mq, "mine")
"""
    with python(FORKS + code, path) as process:
        assert line(process) == "0 0"
        assert process.wait(30) == 0


def test_a_child_uses_the_store_of_a_server(path: Path) -> None:
    """If another process owns the store, workers of a forking pool are full clients of it."""
    code = """
def work(number):
    with connect() as mq:
        use_all(mq, f"topic-{number}")
    return number

with multiprocessing.Pool(3) as pool:
    print(pool.map(work, range(6)), flush=True)
"""
    with serving(path, "--sync", "os"), python(FORKS + OPENED_BEFORE + code, path) as process:
        assert line(process) == "[0, 1, 2, 3, 4, 5]"
        assert process.wait(30) == 0


CLIENT = """
def work():
    mq = connect()
    jobs, out = mq.consumer("orders", group="g"), mq.producer("orders")
    out.send(b"a")
    first = jobs.receive(10)
    jobs.ack(first)
    jobs.commit()
    print(first.value.decode(), flush=True)
    sys.stdin.readline()
    go_on(mq, jobs, out)

in_child(work)
"""


def test_a_child_cannot_take_over(path: Path) -> None:
    """If the owner ends without a successor, each call of a child that cannot take over is refused within seconds."""
    code = """
def go_on(mq, jobs, out):
    began = time.monotonic()
    for call in (lambda: jobs.receive(30), lambda: out.send(b"b"), lambda: mq.topics()):
        try:
            call()
        except mqplug.ForkedClient:
            print("refused", flush=True)
    mq.close(5)
    print(time.monotonic() - began < 20, flush=True)
"""
    with python(HOLDER, path) as owner:
        assert line(owner) == "ready"
        with python(FORKS + OPENED_BEFORE + "connect().create_topic('orders')\n" + code + CLIENT, path) as process:
            assert line(process) == "a"
            killed(owner)
            tell(process)
            assert [line(process) for _ in range(4)] == ["refused"] * 3 + ["True"]


def test_a_child_follows_the_store(path: Path) -> None:
    """If the owner ends and another process takes over, a child that cannot do so continues there."""
    code = """
def go_on(mq, jobs, out):
    sent = out.send(b"b")
    print(jobs.receive(30).id == sent, flush=True)
"""
    with owned_elsewhere(path) as (owner, mq), python(FORKS + OPENED_BEFORE + code + CLIENT, path) as process:
        assert line(process) == "a"
        killed(owner)
        tell(process)
        mq.topics()
        assert owns(mq)
        assert line(process) == "True"


def tell(process: subprocess.Popen[str]) -> None:
    """Let a process that waits for a line continue."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_fork_before_the_first_store(path: Path) -> None:
    """After a parent that only imported the plugin, children own stores, and fill many buffers."""
    code = """
import mqplug_rocksmq._engine.rocks  # which imports rocksdict

def work(number):
    with mqplug.connect("rocksmq", path=f"{path}-{number}", sync="os", memory_max_bytes=MEMORY) as mq:
        use_all(mq)
        with mq.producer("orders") as out:
            for _ in range(40):
                out.send_many([os.urandom(100_000)] * 10, timeout=20)
        assert mq.watermarks("orders")[0].count == 402
    return number

with multiprocessing.Pool(2) as pool:
    print(pool.map(work, range(2)), flush=True)
"""
    with python(FORKS + code.replace("MEMORY", str(64 << 20)), path) as process:
        assert line(process) == "[0, 1]"
        assert process.wait(30) == 0
