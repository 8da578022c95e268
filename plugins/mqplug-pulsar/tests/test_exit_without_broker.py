"""Processes that end while the broker has not answered a commit."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXIT_S = 20  # a process that ends tries for 2 s to close its clients; a call of pulsar-client waits for 30 s

COMMITS = """
import sys, mqplug
url, topic = sys.argv[1:]
client = mqplug.connect(url)
member = client.consumer(topic, group="g")
member.ack(member.receive(30))
print("ready", flush=True)
sys.stdin.readline()
try:
    member.commit(1)
except mqplug.Timeout:
    print("timed out", flush=True)
{end}
"""
CLOSES = """
try:
    client.close(1)
except mqplug.Error:
    pass
"""


@pytest.fixture
def without_broker(request, pulsar_server):
    """A function that freezes or kills the broker until the test ends."""
    take_away, bring_back = getattr(pulsar_server, request.param[0]), getattr(pulsar_server, request.param[1])
    yield take_away
    bring_back()


FROZEN, KILLED = ("pause", "unpause"), ("kill", "start")


@pytest.mark.disturbs
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("without_broker", "end", "admin"),
    [
        (FROZEN, "", False),
        pytest.param(FROZEN, "", True, marks=pytest.mark.night),
        pytest.param(FROZEN, CLOSES, False, marks=pytest.mark.night),
        pytest.param(KILLED, "", False, marks=pytest.mark.night),
    ],
    indirect=["without_broker"],
    ids=["frozen", "frozen, with an admin interface", "frozen and closed", "killed"],
)
def test_a_commit_without_an_answer_keeps_no_process(pulsar_server, mq, topic, without_broker, end, admin):
    """A process whose commit timed out ends soon, although a call of pulsar-client may still wait for the broker."""
    with mq.producer(topic) as out:
        out.send(b"x")
    url = pulsar_server.url if admin else f"{pulsar_server.service_url}?cluster=standalone"
    command = [sys.executable, "-W", "ignore::ResourceWarning", "-c", COMMITS.format(end=end), url, topic]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            without_broker()
            process.stdin.write("go\n")
            process.stdin.flush()
            assert process.stdout.readline() == "timed out\n"
            assert process.wait(EXIT_S) == 0
        finally:
            process.kill()
