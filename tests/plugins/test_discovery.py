"""Finding plugins: small real distributions, good and broken ones, side by side."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import attrs
import pytest
from made_distributions import BACKEND, field, plant_backend

import mqplug
from mqplug import memory, spi
from mqplug.introspection import inspect_plugins, sources

pytestmark = pytest.mark.python


@pytest.fixture
def plant(tmp_path):
    """Plants a distribution for the duration of the test."""
    with field(tmp_path) as planted:
        yield planted


def state_of(name, **rules):
    """Return the inspection of the only plugin with this name, under these rules of the configuration."""
    (state,) = [each for each in inspect_plugins(sources(None, {"plugins": rules}).rules()) if each.name == name]
    return state


def test_a_backend_is_found_by_its_entry_point(plant):
    """A distribution with a backend's entry point is enough to open it."""
    plant_backend(plant, "planted")
    with mqplug.connect("planted") as mq:
        mq.create_topic("orders")
        assert mq.topics() == ["orders"]
    found = state_of("planted")
    assert (found.kind, found.distribution, found.version, found.api_version) == ("backend", "acme-planted", "1.2.3", 1)
    assert (found.state, found.reason) == ("ok", "")


def test_opening_one_backend_imports_no_other(plant):
    """The module of another backend is never imported, however often the first is opened."""
    plant_backend(plant, "planted")
    plant_backend(plant, "other")
    mqplug.connect("planted").close()
    assert "acme_planted" in sys.modules
    assert "acme_other" not in sys.modules


def test_opening_memory_imports_no_plugin():
    """In a fresh process, a client of memory imports no other backend and no extension."""
    program = """
        import sys, mqplug
        mqplug.connect("memory").close()
        plugins = ["mqplug_kafka", "mqplug_pulsar", "mqplug_rocksmq"]
        others = [*plugins, "mqplug_testing.debug", "mqplug_testing.faults", "mqplug_testing.recording"]
        print(*[name for name in others if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_two_distributions_with_one_name_are_both_named(plant):
    """A name that two distributions offer is an error that names both, and both are listed."""
    plant_backend(plant, "twice")
    plant("zenith", "[mqplug.backends]\ntwice = acme_twice\n")
    with pytest.raises(mqplug.PluginError, match=r"provided by acme-twice and by zenith.*Uninstall"):
        mqplug.connect("twice")
    states = [each for each in inspect_plugins() if each.name == "twice"]
    assert [(each.distribution, each.state) for each in states] == [("acme-twice", "conflict"), ("zenith", "conflict")]
    assert "acme_twice" not in sys.modules


HOOKS = "from mqplug.spi import hookimpl\n"
BROKEN = {
    "import": ("import nothing_of_the_kind", "ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
    "syntax": ("def :", "SyntaxError"),
    "raising": ("raise RuntimeError('at import')", "RuntimeError: at import"),
    "leaving": ("raise SystemExit(3)", "SystemExit: 3"),
    "hookless": ("x = 1", "has no hooks.*hookimpl"),
    "unmarked": (
        BACKEND.format(name="unmarked", version=1) + "\n    def mqplug_bounds(): ...",
        "has an undecorated mqplug_bounds",
    ),
    "misspelt": (HOOKS + "@hookimpl\ndef mqplug_conect(): ...", "mqplug_conect.*mean mqplug_connect"),
    "argument": (
        HOOKS + "@hookimpl\ndef mqplug_connect(setings): ...",
        r"mqplug_connect\(setings\).*'setings'.*not be found",
    ),
    "misnamed": (BACKEND.format(name="other", version=1), "has another name, 'other'"),
    "silent": (HOOKS + "@hookimpl\ndef mqplug_describe(): ...", "has no mqplug_describe"),
    "nonsense": (
        HOOKS + "@hookimpl\ndef mqplug_describe(): return {'name': 'nonsense'}",
        "must return a Descriptor, not dict",
    ),
    "describing": (HOOKS + "@hookimpl\ndef mqplug_describe(): return len(5)", "raised TypeError"),
    "wordless": (
        BACKEND.format(name="wordless", version=1).replace("name='wordless'", "name='wordless', settings=5"),
        "wrong settings",
    ),
    "numberless": (BACKEND.format(name="numberless", version="'one'"), "api_version of .* must be an int, not 'one'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_named_with_its_reason(plant, name):
    """A plugin that is broken in any way raises PluginError, is listed as broken, and affects no other."""
    source, reason = BROKEN[name]
    plant_backend(plant, name, source)
    plant_backend(plant, "sound")
    with pytest.raises(mqplug.PluginError, match=f"(?s){reason}") as caught:
        mqplug.connect(name)
    assert name in str(caught.value)
    assert state_of("sound").state == "ok"
    assert state_of(name).state == "broken"
    assert name in state_of(name).reason
    mqplug.connect("sound").close()


def test_an_entry_point_that_names_nothing_is_a_broken_plugin(plant):
    """An entry point whose module lacks the named object is reported as such."""
    plant("acme", "[mqplug.backends]\nhollow = acme_hollow:Backend\n", acme_hollow="")
    with pytest.raises(mqplug.PluginError, match=r"of acme cannot be loaded: AttributeError.*Backend"):
        mqplug.connect("hollow")


def test_broken_metadata_hides_no_other_plugin(plant):
    """A distribution with an unreadable entry-point file leaves all others usable."""
    plant("garbled", "[mqplug.backends]\nthis is no entry point\n")
    plant_backend(plant, "sound")
    assert state_of("sound").distribution == "acme-sound"
    mqplug.connect("sound").close()


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"deny": ["planted"]}, "on the deny list"),
        ({"allow": ["memory"]}, "not on the allow list"),
        ({"allow": []}, "not on the allow list"),
        ({"allow": ["planted"], "deny": ["planted"]}, "on the deny list"),
    ],
)
def test_rules_are_read_before_anything_is_loaded(plant, rules, reason):
    """A plugin that the rules forbid is refused, and listed, and its module is not imported."""
    plant_backend(plant, "planted", "raise AssertionError('imported')")
    with pytest.raises(mqplug.PluginError, match=f"'planted' is {reason}"):
        mqplug.connect({"backend": "planted", "plugins": rules})
    assert state_of("planted", **rules).state == "denied"
    assert reason in state_of("planted", **rules).reason
    assert "acme_planted" not in sys.modules


def test_rules_hold_for_extensions_and_for_what_is_registered(plant):
    """The rules apply to extensions and to registered plugins, too."""
    plant("acme", "[mqplug.extensions]\nspy = acme_spy\n", acme_spy="raise AssertionError('imported')")
    with pytest.raises(mqplug.PluginError, match="'spy' is on the deny list"):
        mqplug.connect({"backend": "memory", "extensions": ["spy"], "plugins": {"deny": ["spy"]}})
    with mqplug.register("mine", object()), pytest.raises(mqplug.PluginError, match="'mine' is on the deny list"):
        mqplug.connect({"backend": "mine", "plugins": {"deny": ["mine"]}})


def test_what_the_rules_allow_is_loaded(plant):
    """A plugin on the allow list loads."""
    plant_backend(plant, "planted")
    mqplug.connect({"backend": "planted", "plugins": {"allow": ["planted"]}}).close()
    assert "acme_planted" in sys.modules


@pytest.mark.parametrize(("version", "upgraded"), [(2, "mqplug"), (7, "mqplug"), (-1, "acme-other")])
def test_another_version_of_the_interface_says_what_to_upgrade(plant, version, upgraded):
    """A plugin that is too new asks for a newer mqplug, and one that is too old for a newer plugin."""
    plant_backend(plant, "other", api_version=version)
    with pytest.raises(mqplug.PluginError, match=f"pip install --upgrade {upgraded}$"):
        mqplug.connect("other")
    found = state_of("other")
    assert (found.state, found.api_version) == ("incompatible", version)


def test_the_version_before_is_accepted(plant):
    """A plugin for the previous version of the interface opens."""
    plant_backend(plant, "older", api_version=spi.API_VERSION - 1)
    mqplug.connect("older").close()
    assert state_of("older").state == "ok"


class Describing:
    """A backend that notes that it was opened."""

    def __init__(self, name):
        self.opened = []
        self.name = name

    @spi.hookimpl
    def mqplug_describe(self):
        return attrs.evolve(memory.mqplug_describe(), name=self.name)

    @spi.hookimpl
    def mqplug_connect(self, settings):
        self.opened.append(settings)
        return memory.mqplug_connect(settings)


def opens(name, backend):
    """Return whether this name opens this backend."""
    before = len(backend.opened)
    mqplug.connect(name).close()
    return len(backend.opened) > before


def test_a_registration_can_be_undone():
    """After undo, a registered plugin is gone, and the one that it hid is back."""
    first, second = Describing("mine"), Describing("mine")
    with mqplug.register("mine", first):
        registration = mqplug.register("mine", second)
        assert opens("mine", second)
        registration.undo()
        assert opens("mine", first)
        registration.undo()
        assert opens("mine", first)
    registration.undo()
    with pytest.raises(mqplug.ConfigError, match="unknown backend 'mine'"):
        mqplug.connect("mine")


def test_what_is_registered_wins(plant):
    """A registered plugin replaces the installed one, which is not imported."""
    plant_backend(plant, "planted", "raise AssertionError('imported')")
    registered = Describing("planted")
    with mqplug.register("planted", registered):
        assert opens("planted", registered)
        assert state_of("planted").distribution == "registered"


def test_backends_and_extensions_have_names_of_their_own():
    """An extension may have the same name as a backend."""

    class Extension:
        @spi.hookimpl(wrapper=True)
        def mqplug_connect(self):
            connected.append(self)
            return (yield)

    connected, backend = [], Describing("twin")
    with mqplug.register("twin", backend), mqplug.register("twin", Extension, kind="extension"):
        mqplug.connect("twin", extensions=["twin"]).close()
    assert (len(backend.opened), len(connected)) == (1, 1)
    with pytest.raises(ValueError, match="kind"):
        mqplug.register("twin", object, kind="something")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("otel", "unknown extension 'otel'.*Use one of .*recording"),
        ("recordin", "Did you mean 'recording'"),
        ("nothing-like-it", "Use one of .*faults"),
    ],
)
def test_a_missing_extension_says_what_there_is(name, reason):
    """The error names the nearest extension, or all, and never an unpublished distribution."""
    with pytest.raises(mqplug.Error, match=reason):
        mqplug.connect("memory", extensions=[name])


EXTENSIONS = {
    "module": ("spying", HOOKS + "@hookimpl\ndef mqplug_connect(settings): ...", "ok"),
    "made": (
        "spying:Spy",
        HOOKS + "class Spy:\n    def __init__(self, level): ...\n    @hookimpl\n    def mqplug_connect(self): ...",
        "ok",
    ),
    "function": ("spying:make", "def make(level=1): ...", "ok"),
    "misspelt": (
        "spying:Spy",
        HOOKS + "class Spy:\n    @hookimpl\n    def mqplug_conect(self): ...",
        "broken",
    ),
    "older": (
        "spying:Spy",
        HOOKS + "class Spy:\n    api_version = -3\n    @hookimpl\n    def mqplug_connect(self): ...",
        "incompatible",
    ),
    "gone": ("spying:Spi", "", "broken"),
}


@pytest.mark.parametrize("kind", EXTENSIONS)
def test_extensions_are_looked_at_without_their_settings(plant, kind):
    """Inspection checks whether an extension's hooks fit, and makes no extension."""
    value, source, state = EXTENSIONS[kind]
    plant("acme-spy", f"[mqplug.extensions]\nspy = {value}\n", spying=source)
    found = state_of("spy")
    assert (found.kind, found.distribution, found.state) == ("extension", "acme-spy", state)


def test_a_class_is_no_backend():
    """A backend given as a class, whose hooks would lack ``self``, is refused with advice."""

    class Forgotten:
        @spi.hookimpl
        def mqplug_describe(self):
            return memory.mqplug_describe()

    with mqplug.register("forgotten", Forgotten), pytest.raises(mqplug.PluginError, match="an instance of Forgotten"):
        mqplug.connect("forgotten")
