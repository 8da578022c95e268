"""The proxy of ``mqplug_testing``: a network that fails, or only loses its answers."""

from __future__ import annotations

import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor, TimeoutError as FutureTimeoutError

import pytest

from mqplug_testing import Proxy, free_port

SILENCE = 0.3  # seconds within which data would arrive on loopback
PATIENCE = 20.0


@pytest.fixture
def server():
    """A listening socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        yield listener


@pytest.fixture
def proxy(server):
    """A proxy in front of the server."""
    with Proxy(server.getsockname()[1]) as proxy:
        yield proxy


@pytest.fixture
def pair(proxy, server):
    """Both ends of a connection through the proxy."""
    client, served = connected(proxy, server)
    with client, served:
        yield client, served


def connected(proxy, server):
    """Return both ends of a new connection through the proxy."""
    client = socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)
    served, _ = server.accept()
    served.settimeout(PATIENCE)
    return client, served


def heard(end, count):
    """Receive this many bytes, however they are split."""
    with end.makefile("rb") as words:
        return words.read(count)


def silent(end):
    """Return whether nothing arrives, not even the end."""
    end.settimeout(SILENCE)
    try:
        end.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        end.settimeout(PATIENCE)
    return False


def test_it_carries_both_ways(pair):
    """Each end receives what the other sends, whatever its size."""
    client, served = pair
    client.sendall(b"ping")
    assert served.recv(10) == b"ping"
    much = bytes(300_000)
    served.sendall(much)
    assert heard(client, len(much)) == much


def test_an_end_is_passed_on(pair):
    """One side may stop sending while the other continues."""
    client, served = pair
    client.shutdown(socket.SHUT_WR)
    assert served.recv(10) == b""
    served.sendall(b"late")
    assert client.recv(10) == b"late"


def test_a_cut_connection_goes_on_when_healed(proxy, pair):
    """During a cut nothing arrives on either side; afterwards everything does, in order."""
    proxy.cut()
    for speaker, listener in (pair, reversed(pair)):
        speaker.sendall(b"one, ")
        assert silent(listener)
        speaker.sendall(b"two")
    proxy.heal()
    for end in pair:
        assert heard(end, 8) == b"one, two"


@pytest.mark.parametrize("linger", [0, 1], ids=["broken", "ended"])
def test_nobody_is_told_that_the_other_side_is_gone(proxy, pair, linger):
    """A connection that one side closes or resets during a cut seems open to the other until it is healed."""
    client, served = pair
    served.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, linger))
    proxy.cut()
    served.close()
    assert silent(client)
    proxy.heal()
    assert client.recv(1) == b""


def test_a_new_connection_gets_no_answer(proxy, server):
    """A client that connects during a cut waits, and is accepted when it is healed."""
    proxy.cut()
    with socket.socket() as client:
        client.settimeout(SILENCE)
        with pytest.raises(TimeoutError):
            client.connect(("127.0.0.1", proxy.port))
    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(socket.create_connection, ("127.0.0.1", proxy.port), PATIENCE)
        with pytest.raises(FutureTimeoutError):
            connecting.result(SILENCE)
        proxy.heal()
        with connecting.result() as client:
            client.sendall(b"in")
            assert first_words(server) == b"in"


def first_words(server):
    """Return the first bytes of a client; clients that gave up during the cut send none."""
    while True:
        served, _ = server.accept()
        with served:
            if words := served.recv(10):
                return words


def test_cutting_and_healing_twice_is_harmless(proxy, pair):
    """Cutting twice and healing twice is harmless."""
    for step in (proxy.heal, proxy.cut, proxy.cut, proxy.heal, proxy.heal):
        step()
    pair[0].sendall(b"on")
    assert pair[1].recv(10) == b"on"


def test_stalled_replies_come_late(proxy, pair):
    """While replies are stalled requests arrive; the answers arrive in order when the network is healed."""
    client, served = pair
    proxy.stall_replies()
    for number in (b"1", b"2"):
        client.sendall(b"ask " + number)
        assert heard(served, 5) == b"ask " + number
        served.sendall(b"told " + number)
        assert silent(client)
    proxy.heal()
    assert heard(client, 12) == b"told 1told 2"
    client.sendall(b"again")
    assert heard(served, 5) == b"again"


def test_a_connection_that_lost_a_reply_is_reset_in_the_end(proxy, server, pair):
    """While replies are dropped requests arrive; a connection that lost one is reset when it is healed."""
    client, served = pair
    proxy.drop_replies()
    client.sendall(b"ask")
    assert heard(served, 3) == b"ask"
    served.sendall(b"told")
    assert silent(client)
    assert proxy.dropped == 4
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        client.recv(10)
    fresh, accepted = connected(proxy, server)
    with fresh, accepted:
        accepted.sendall(b"hello")
        assert heard(fresh, 5) == b"hello"


def test_a_connection_that_lost_nothing_goes_on(proxy, pair):
    """A connection that had no answer while replies were dropped continues."""
    client, served = pair
    proxy.drop_replies()
    client.sendall(b"ask")
    assert heard(served, 3) == b"ask"
    proxy.heal()
    served.sendall(b"told")
    assert heard(client, 4) == b"told"


def test_that_a_server_goes_is_no_answer_either(proxy, pair):
    """The end of a connection is dropped like an answer."""
    client, served = pair
    proxy.drop_replies()
    served.close()
    assert silent(client)
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_an_answer_resets_the_connection(proxy, pair):
    """The request arrives whole, and its answer is replaced by a reset of both sides."""
    client, served = pair
    proxy.reset_replies()
    client.sendall(b"ask")
    assert heard(served, 3) == b"ask"
    assert silent(client)
    served.sendall(b"told")
    with pytest.raises(ConnectionResetError):
        client.recv(10)
    with pytest.raises(ConnectionResetError):
        served.recv(10)


@pytest.mark.parametrize("trouble", ["drop_replies", "stall_replies", "reset_replies"])
def test_a_server_that_answers_and_goes_holds_nothing_up(proxy, server, trouble):
    """A server that answers and closes blocks no other connection, nor heal and close of the proxy."""
    getattr(proxy, trouble)()
    for _ in range(3):
        client, served = connected(proxy, server)
        with client:
            served.sendall(b"bye")
            served.close()
            other, accepted = connected(proxy, server)
            with other, accepted:
                other.sendall(b"ask")
                assert heard(accepted, 3) == b"ask"
    proxy.heal()
    client, served = connected(proxy, server)
    with client, served:
        served.sendall(b"told")
        assert heard(client, 4) == b"told"


def test_what_was_begun_before_is_passed_on(proxy, pair):
    """Bytes that arrived at the other side before a change stay delivered."""
    client, served = pair
    served.sendall(b"before")
    assert heard(client, 6) == b"before"
    proxy.drop_replies()
    served.sendall(b"during")
    assert silent(client)


def test_from_one_trouble_to_the_next(proxy, pair):
    """The last fault counts: stalled replies are dropped if drop_replies follows."""
    client, served = pair
    proxy.stall_replies()
    served.sendall(b"told")
    assert silent(client)
    proxy.drop_replies()
    assert silent(client)
    proxy.heal()
    with pytest.raises(ConnectionResetError):
        client.recv(10)


def test_a_server_that_is_down_ends_the_connection(proxy, server):
    """A connection is closed if no server listens for the proxy."""
    server.close()
    with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as client:
        assert client.recv(1) == b""


def test_closing_ends_connections_also_while_cut(proxy, pair):
    """After close the proxy forwards nothing, listens nowhere, and has no thread."""
    proxy.cut()
    proxy.close()
    for end in pair:
        assert end.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), PATIENCE)
    assert [thread for thread in threading.enumerate() if "proxy" in thread.name] == []
    proxy.close()


def test_a_taken_port_leaves_nothing_behind(server):
    """If one port is taken, the ports already bound are free again, and no thread has started."""
    port, taken = free_port(), server.getsockname()[1]
    with pytest.raises(OSError, match="in use"):
        Proxy(taken, taken, ports=[port, taken])
    with socket.create_server(("127.0.0.1", port)):
        assert [thread for thread in threading.enumerate() if "proxy" in thread.name] == []


def test_several_targets_share_a_network(server):
    """Each target has a port, in order, and one cut disconnects all of them."""
    ports = [free_port(), free_port()]
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(PATIENCE)
        with Proxy(server.getsockname()[1], other.getsockname(), ports=ports) as proxy:
            assert proxy.ports == ports
            ends = []
            for port, listener in zip(ports, (server, other), strict=True):
                client = socket.create_connection(("127.0.0.1", port), PATIENCE)
                ends.append((client, listener.accept()[0]))
            proxy.cut()
            for client, served in ends:
                served.sendall(b"x")
                assert silent(client)
            proxy.heal()
            for client, served in ends:
                assert client.recv(1) == b"x"
                client.close()
                served.close()


def test_a_delay_holds_in_both_directions_and_ends_when_healed(proxy, pair):
    """Data arrives after at least the delay; healing delivers data under way at once."""
    client, served = pair
    proxy.delay(0.4)
    for speaker, listener in (pair, reversed(pair)):
        began = time.monotonic()
        speaker.sendall(b"late")
        assert heard(listener, 4) == b"late"
        assert time.monotonic() - began >= 0.4
    proxy.delay(3600)
    client.sendall(b"later")
    assert silent(served)
    proxy.heal()
    assert heard(served, 5) == b"later"
    client.sendall(b"now")
    assert heard(served, 3) == b"now"


def test_a_delay_is_one_of_time_not_of_throughput(proxy, pair):
    """Chunks overlap in the delay: a megabyte takes the delay once instead of once per chunk."""
    client, served = pair
    proxy.delay(1.0)
    much = bytes(1_000_000)
    sender = threading.Thread(target=client.sendall, args=(much,))
    began = time.monotonic()
    sender.start()
    assert heard(served, len(much)) == much
    sender.join(PATIENCE)
    assert time.monotonic() - began < 15 * 1.0  # sixteen or more chunks


def test_the_end_of_a_delayed_connection_comes_after_what_was_sent(proxy, pair):
    """A side that sends and closes, or resets, the connection loses no data under way."""
    client, served = pair
    proxy.delay(0.3)
    served.sendall(b"last words")
    served.close()
    assert heard(client, 11) == b"last words"


def test_one_connection_breaks_and_the_others_go_on(proxy, server):
    """The connection that carried data last is reset on both sides; the other one is unaffected."""
    first, first_served = connected(proxy, server)
    second, second_served = connected(proxy, server)
    with first, first_served, second, second_served:
        for speaker, listener in ((second, second_served), (first, first_served)):
            speaker.sendall(b"x")
            assert heard(listener, 1) == b"x"
        assert proxy.break_connections(1) == 1
        with pytest.raises(ConnectionResetError):
            first.recv(1)
        with pytest.raises(ConnectionResetError):
            first_served.recv(1)
        second.sendall(b"y")
        assert heard(second_served, 1) == b"y"
        assert proxy.break_connections() == 1
        with pytest.raises(ConnectionResetError):
            second.recv(1)
        assert proxy.break_connections() == 0
        third, third_served = connected(proxy, server)
        with third, third_served:
            third.sendall(b"z")
            assert heard(third_served, 1) == b"z"


@pytest.mark.parametrize("wrong", [-1, float("inf"), float("nan")])
def test_a_delay_that_cannot_be_meant_is_refused(proxy, wrong):
    """A delay must be finite and not negative, and the number of connections to break at least one."""
    with pytest.raises(ValueError, match="must be a finite number, 0 or more"):
        proxy.delay(wrong)
    with pytest.raises(ValueError, match="must be 1 or more, or None"):
        proxy.break_connections(0)
