"""Extensions around a backend: their order, what they see through proxies, and which party an error names."""

from __future__ import annotations

import sys

import attrs
import pytest
from made_distributions import field

import mqplug
from mqplug import memory
from mqplug.spi import ProducerDriver, hookimpl, hookspecs
from mqplug.spi.proxies import ColumnsProxy, ConnectionProxy, ConsumerProxy, ListenerProxy, ProducerProxy, SendingProxy

HOOKS = sorted(name for name in vars(hookspecs) if name.startswith("mqplug_") and name != "mqplug_commands")
"""The hooks that belong to a client."""
CALLS = {
    "mqplug_open_producer": lambda mq: mq.producer("t"),
    "mqplug_open_consumer": lambda mq: mq.consumer("t", group="g"),
    "mqplug_open_stage": lambda mq: mq.stage("t"),
    "mqplug_open_transactions": lambda mq: mq.transaction("t", "t").__enter__(),
    "mqplug_resolve_start": lambda mq: mq.resolve("t", mqplug.LATEST),
    "mqplug_move_group": lambda mq: mq.reset_group("g", "t", mqplug.EARLIEST),
    "mqplug_watermarks": lambda mq: mq.watermarks("t"),
    "mqplug_bounds": lambda mq: mq.bounds("t"),
    "mqplug_administer": lambda mq: mq.create_topic("u"),
    "mqplug_describe": lambda mq: mq,
    "mqplug_connect": lambda mq: mq,
}
"""For each hook, a client's call that makes the core call it."""


def call(hook, backend, extensions=()):
    """Make the core call this hook of a backend, with these extensions around it."""
    with mqplug.register("memory", backend), mqplug.connect("memory", extensions=extensions) as mq:
        if hook not in {"mqplug_describe", "mqplug_connect", "mqplug_administer"}:
            mq.create_topic("t")
        CALLS[hook](mq)


def wrapping(hook, before=lambda: None, after=lambda: None, name="Extension"):
    """Return an extension that wraps one hook."""

    @hookimpl(wrapper=True)
    def wrapper(self):
        before()
        answer = yield
        after()
        return answer

    return type(name, (), {hook: wrapper})()


def raising(error):
    """Return a function that raises this error."""

    def call():
        raise error

    return call


@pytest.mark.parametrize("hook", HOOKS)
def test_the_first_extension_is_the_outermost(hook):
    """Around every hook, the extension that is named first begins first and ends last."""
    log = []
    extensions = [
        wrapping(hook, lambda name=name: log.append(f"{name} begins"), lambda name=name: log.append(f"{name} ends"))
        for name in ("first", "second")
    ]
    call(hook, memory, extensions)
    assert log[-4:] == ["first begins", "second begins", "second ends", "first ends"]


def test_the_order_of_the_configuration_counts():
    """Extensions by name wrap the backend in the order of their names."""
    seen = []

    def making(name):
        return lambda: wrapping("mqplug_connect", lambda: seen.append(name))

    with (
        mqplug.register("a", making("a"), kind="extension"),
        mqplug.register("b", making("b"), kind="extension"),
    ):
        mqplug.connect("memory", extensions=["b", "a"]).close()
        mqplug.connect("memory", extensions=["a", "b"]).close()
    assert seen == ["b", "a", "a", "b"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("error", [KeyError, TypeError, StopIteration])
def test_what_an_extension_raises_is_its_own_fault(hook, when, error):
    """An error other than mqplug's that a wrapper raises, in any hook, is a PluginError that names the extension."""
    extension = wrapping(hook, **{when: raising(error("native"))}, name="Clumsy")
    with pytest.raises(mqplug.PluginError, match=r"^the extension 'Clumsy' raised .*Report this defect") as caught:
        call(hook, memory, [wrapping(hook, name="Innocent"), extension, wrapping(hook, name="Harmless")])
    assert error.__name__ in str(caught.value)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("hook", HOOKS)
def test_an_mqplug_error_of_an_extension_passes(hook, when):
    """An mqplug error that a wrapper raises, in any hook, passes unchanged."""
    error = mqplug.AccessDenied("not today")
    with pytest.raises(mqplug.AccessDenied) as caught:
        call(hook, memory, [wrapping(hook, **{when: raising(error)})])
    assert caught.value is error


@pytest.mark.parametrize("surrounded", [False, True])
@pytest.mark.parametrize("hook", HOOKS)
def test_what_a_backend_raises_is_its_own_fault(hook, surrounded):
    """A backend's stray exception is attributed to the driver, even if it passes through an extension."""

    @hookimpl
    def broken(self):
        raise LookupError("native")

    sound = {name: staticmethod(getattr(memory, name)) for name in HOOKS}
    backend = type("Broken", (), sound | {hook: broken})()
    extensions = [wrapping(hook)] if surrounded else []
    with pytest.raises(mqplug.PluginError, match=r"^the driver raised LookupError: native") as caught:
        call(hook, backend, extensions)
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize("hook", [name for name in HOOKS if name != "mqplug_describe"])
def test_a_hook_that_nobody_answers_is_named(hook):
    """A backend without a hook, or a wrapper that returns nothing, is an error that names the hook."""
    sound = {name: staticmethod(getattr(memory, name)) for name in HOOKS if name != hook}
    with pytest.raises(mqplug.PluginError, match=f"no plugin answered {hook}"):
        call(hook, type("Lacking", (), sound)())

    @hookimpl(wrapper=True)
    def forgetful(self):
        yield

    with pytest.raises(mqplug.PluginError, match=f"{hook}.*return the result of yield"):
        call(hook, memory, [type("Forgetful", (), {hook: forgetful})()])


def test_a_wrapper_that_does_not_yield_once_is_refused():
    """A wrapper that never yields, or yields twice, is an error that names the extension and its function."""

    @hookimpl(wrapper=True)
    def never(self):
        return
        yield

    @hookimpl(wrapper=True)
    def twice(self):
        yield
        yield

    for wrong in (never, twice):
        extensions = [wrapping("mqplug_connect"), type("Wrong", (), {"mqplug_connect": wrong})()]
        with pytest.raises(mqplug.PluginError, match=f"the extension 'Wrong' .*{wrong.__name__}.*yield"):
            call("mqplug_connect", memory, extensions)


def test_wrong_hooks_of_an_extension_are_its_failure():
    """A misspelt hook, an unknown argument, or a class instead of an object is an error that names the extension."""

    class Misspelt:
        @hookimpl(wrapper=True)
        def mqplug_open_prodcuer(self):
            return (yield)

    class Asking:
        @hookimpl(wrapper=True)
        def mqplug_connect(self, setings):
            return (yield)

    wrong = [
        (Misspelt(), "extension 'Misspelt' has an unknown hook mqplug_open_prodcuer.*mean mqplug_open_producer"),
        (Asking(), "extension 'Asking'.*'setings'"),
        (Asking, "extension 'Asking'.*Pass an instance of Asking"),
        (object(), "extension 'object' has no hooks"),
    ]
    for extension, reason in wrong:
        with pytest.raises(mqplug.PluginError, match=f"(?s){reason}"):
            mqplug.connect("memory", extensions=[extension])


def test_an_extension_is_given_once():
    """The same object twice is refused; two objects of one class are two extensions."""
    seen = []
    one, other = (wrapping("mqplug_connect", lambda: seen.append(1)) for _ in range(2))
    mqplug.connect("memory", extensions=[one, other]).close()
    assert seen == [1, 1]
    with pytest.raises(mqplug.ConfigError, match="listed twice"):
        mqplug.connect("memory", extensions=[one, one])


def test_an_extension_may_be_older_by_one_version():
    """An extension that declares its interface version is checked in the same way as a backend."""
    extension = wrapping("mqplug_connect")
    extension.api_version = 0
    mqplug.connect("memory", extensions=[extension]).close()
    extension.api_version = 7
    with pytest.raises(mqplug.PluginError, match=r"'Extension' implements version 7.*upgrade mqplug$"):
        mqplug.connect("memory", extensions=[extension])


# settings --------------------------------------------------------------------------------------------------


@attrs.frozen
class Spy:
    """An extension with settings."""

    level: int = 1
    names: tuple[str, ...] = ()

    @hookimpl(wrapper=True)
    def mqplug_connect(self):
        connected.append(self)
        return (yield)


connected: list[Spy] = []
"""The extensions with which a client was opened in the current test."""


def spy(level, name="x"):
    """An extension that a function makes."""
    if level < 0:
        raise RuntimeError("too low")
    return Spy(level, (name,))


@pytest.mark.parametrize(
    ("found", "settings", "made"),
    [
        (Spy, {}, Spy()),
        (Spy, {"level": 3, "names": ["a"]}, Spy(3, ("a",))),
        (spy, {"level": 2}, Spy(2, ("x",))),
        (Spy(5), {}, Spy(5)),
    ],
)
def test_an_extension_is_made_with_its_settings(found, settings, made):
    """A class is structured from its settings, a function is called with them, and an object is taken as it is."""
    connected.clear()
    chosen = {"backend": "memory", "extensions": ["spy"], "extension": {"spy": settings}}
    with mqplug.register("spy", found, kind="extension"), mqplug.connect(chosen):
        assert connected == [made]


@pytest.mark.parametrize(
    ("found", "settings", "reason"),
    [
        (Spy, {"levle": 3}, r"unknown setting 'extension\.spy\.levle'.*Did you mean 'extension\.spy\.level'"),
        (Spy, {"level": "three"}, r"'extension\.spy\.level': expected .*, not"),
        (spy, {"levle": 3}, r"unknown setting 'extension\.spy\.levle'.*Did you mean 'extension\.spy\.level'"),
        (spy, {}, r"'extension\.spy': missing a required argument: 'level'"),
        (Spy(5), {"level": 3}, "'spy' takes no settings"),
    ],
)
def test_wrong_settings_of_an_extension_are_named(found, settings, reason):
    """An unknown, missing or mistyped setting raises ConfigError before anything is connected."""
    with mqplug.register("spy", found, kind="extension"), pytest.raises(mqplug.ConfigError, match=reason):
        mqplug.connect({"backend": "memory", "extensions": ["spy"], "extension": {"spy": settings}})


def test_an_extension_that_does_not_start_is_named():
    """An error from an extension's maker is a PluginError that names the extension."""
    with (
        mqplug.register("spy", spy, kind="extension"),
        pytest.raises(mqplug.PluginError, match="'spy' cannot be started: RuntimeError: too low"),
    ):
        mqplug.connect({"backend": "memory", "extensions": ["spy"], "extension": {"spy": {"level": -1}}})


# proxies ---------------------------------------------------------------------------------------------------


class Shouting:
    """An extension that sends everything in capitals, and reads everything in lower case."""

    class Producer(ProducerProxy):
        def send(self, sendings):
            louder = [SendingProxy(sending) for sending in sendings]
            for sending in louder:
                sending.value = sending.value.upper()
            self.inner.send(louder)

    class Consumer(ConsumerProxy):
        def poll(self, most, timeout):
            return [Shouting.Whispered(batch).as_batch() for batch in self.inner.poll(most, timeout)]

    class Whispered(ColumnsProxy):
        def values(self):
            return [value.lower() for value in self.batch.values]

    @hookimpl(wrapper=True)
    def mqplug_open_producer(self):
        return self.Producer((yield))

    @hookimpl(wrapper=True)
    def mqplug_open_consumer(self):
        return self.Consumer((yield))


@pytest.fixture
def store(request):
    """The name of the test's own store."""
    return f"memory://{request.node.name.replace('[', '-').strip(']')}"


def test_an_extension_changes_what_is_sent_and_what_is_read(store):
    """A producer proxy's changes are stored, and a consumer proxy's changes are delivered, in columns as well."""
    with mqplug.connect(store, extensions=[Shouting()]) as loud, mqplug.connect(store) as plain:
        loud.create_topic("t")
        with loud.producer("t") as out:
            sent = out.send_many([b"Hello", b"World"])
        assert [message.value for message in plain.read("t")] == [b"HELLO", b"WORLD"]
        assert [(message.id, message.value) for message in loud.read("t")] == [(sent[0], b"hello"), (sent[1], b"world")]
        with loud.consumer("t", start=mqplug.EARLIEST) as reader:
            batch = reader.receive_many(10, timeout=5)
            assert batch.to_arrow(["value"]).column(0).to_pylist() == [b"hello", b"world"]


class Runs(ProducerDriver):
    """A driver that takes runs."""

    def __init__(self):
        self.taken = []

    def send(self, sendings):
        self.taken.append(("send", list(sendings)))

    def send_run(self, run):
        self.taken.append(("run", run))


class OnlyRecords(ProducerDriver):
    """A driver that takes records only."""

    def __init__(self):
        self.taken = []

    def send(self, sendings):
        self.taken.append(list(sendings))


class OneByOne:
    """A run of two records."""

    def sendings(self):
        return ["one", "two"]


def test_a_run_passes_as_it_is_or_record_by_record():
    """A proxy passes a run on; if it overrides send, or its driver takes no runs, records come one by one."""

    class Watching(ProducerProxy):
        def send(self, sendings):
            self.inner.send(sendings)

    run, takes_runs = OneByOne(), Runs()
    ProducerProxy(takes_runs).send_run(run)
    Watching(takes_runs).send_run(run)
    only_records = OnlyRecords()
    ProducerProxy(only_records).send_run(run)
    assert takes_runs.taken == [("run", run), ("send", ["one", "two"])]
    assert only_records.taken == [["one", "two"]]


def test_an_extension_hears_of_assignments(store):
    """An extension's listener in front of the core's gets the driver's calls, and may change the answer."""
    heard = []

    class Hearing(ListenerProxy):
        def assigned(self, positions):
            heard.append(("assigned", [log.partition for log in positions]))
            super().assigned(positions)

        def revoked(self, logs):
            heard.append(("revoked", len(logs)))
            return super().revoked(logs)

    class Ear:
        @hookimpl(wrapper=True)
        def mqplug_open_consumer(self, listener):
            listener.insert(Hearing)
            return (yield)

    with mqplug.connect(store, extensions=[Ear()]) as mq:
        mq.create_topic("t", partitions=2)
        with mq.consumer("t", group="g") as one:
            assert one.receive(timeout=0) is None
            with mq.consumer("t", group="g") as other:
                one.receive(timeout=0)
                other.receive(timeout=0)
    assert heard == [("assigned", [0, 1]), ("revoked", 1), ("assigned", [1])]


def test_a_connection_proxy_is_the_connection_to_its_backend(store):
    """A backend finds its own attributes in a proxied connection, and ``unwrap`` reaches through."""

    class Wrapping:
        @hookimpl(wrapper=True)
        def mqplug_connect(self):
            return ConnectionProxy((yield))

    with mqplug.connect(store, extensions=[Wrapping(), Wrapping()]) as mq:
        mq.create_topic("t")
        with mq.producer("t") as out:
            first = out.send(b"x")
        assert mq.bounds("t")[0].first_id == first
        assert mq.unwrap(memory.Store) is not None
        mq.health()


PROXYING = """
    from mqplug.spi import hookimpl
    from mqplug.spi.proxies import ConsumerProxy, ProducerProxy

    class Consumer(ConsumerProxy):
        def {consumer}(self, *arguments):
            raise LookupError("in the proxy")

    class Producer(ProducerProxy):
        def {producer}(self, *arguments):
            raise LookupError("in the proxy")

    class Clumsy:
        @hookimpl(wrapper=True)
        def mqplug_open_consumer(self):
            return Consumer((yield))

        @hookimpl(wrapper=True)
        def mqplug_open_producer(self):
            return Producer((yield))
"""


@pytest.mark.parametrize(
    ("consumer", "producer", "act"),
    [
        ("poll", "_", lambda mq: mq.consumer("t", start=mqplug.EARLIEST).receive(1)),
        ("seek", "_", lambda mq: mq.consumer("t", start=mqplug.EARLIEST).seek(mqplug.LATEST)),
        ("_", "send", lambda mq: mq.producer("t").send(b"x")),
    ],
    ids=["poll", "seek", "send"],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_a_proxy_raises_is_the_extensions_fault(tmp_path, consumer, producer, act):
    """A stray exception of a proxied driver names the extension that made the proxy."""
    with field(tmp_path) as plant:
        source = PROXYING.format(consumer=consumer, producer=producer)
        plant("acme-clumsy", "[mqplug.extensions]\nclumsy = acme_clumsy:Clumsy\n", acme_clumsy=source)
        with mqplug.connect("memory", extensions=["clumsy"]) as mq:
            mq.create_topic("t")
            with pytest.raises(mqplug.PluginError, match="the extension 'clumsy' raised LookupError: in the proxy"):
                act(mq)


class Faulty:
    """The memory backend with a producer that raises."""

    @hookimpl
    def mqplug_open_producer(self):
        return self

    def send(self, sendings):
        raise LookupError("in the driver")

    def flush(self, timeout):
        """Do nothing: no record is on its way."""

    pump = close = flush
    mqplug_describe, mqplug_connect, mqplug_administer = map(
        staticmethod, (memory.mqplug_describe, memory.mqplug_connect, memory.mqplug_administer)
    )


def test_what_a_driver_raises_through_a_proxy_is_the_backends_fault(tmp_path):
    """A driver's stray exception is attributed to the driver, even if it passes through an extension's proxy."""
    with field(tmp_path) as plant:
        source = PROXYING.format(consumer="_", producer="_")
        plant("acme-clumsy", "[mqplug.extensions]\nclumsy = acme_clumsy:Clumsy\n", acme_clumsy=source)
        with mqplug.register("memory", Faulty()), mqplug.connect("memory", extensions=["clumsy"]) as mq:
            out = mq.producer("t", create=True)
            with pytest.raises(mqplug.PluginError, match="the driver raised LookupError: in the driver"):
                out.send(b"x")


def test_a_proxied_receive_adds_nothing_for_each_message(store):
    """However many messages are received, a proxied consumer runs only a few lines of its own for each poll."""

    class Through:
        @hookimpl(wrapper=True)
        def mqplug_open_consumer(self):
            return ConsumerProxy((yield))

    def calls_in_proxies(count):
        with mqplug.connect(store, extensions=[Through()]) as mq:
            mq.create_topic(f"t{count}")
            with mq.producer(f"t{count}") as out:
                out.send_many([b"x"] * count)
            seen = 0

            def watch(frame, event, argument):
                nonlocal seen
                seen += event == "call" and frame.f_code.co_filename.endswith("proxies.py")

            with mq.consumer(f"t{count}", start=mqplug.EARLIEST) as reader:
                sys.setprofile(watch)
                try:
                    for _ in range(count):
                        assert reader.receive(timeout=5) is not None
                finally:
                    sys.setprofile(None)
            return seen

    assert calls_in_proxies(900) == calls_in_proxies(9) <= 3
