"""A program starts fast: it loads few modules of mqplug, and only those that it needs."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import mqplug
import mqplug.introspection

OPTIONAL = {"asyncio", "pyarrow", "pytest", "rich", "ssl", "yaml"}
SLOW = {"cattrs", "class Consumer", "class Producer"}
LOADED = """
import gc, sys
classes = [each for each in gc.get_objects() if isinstance(each, type) and each.__module__.startswith("mqplug.")]
print("loaded", *sys.modules, *(f"class {each.__name__}" for each in classes), sep=";")
"""


def loaded_by(program: str) -> list[str]:
    """Return the modules that a program loads, and the classes of mqplug."""
    done = subprocess.run([sys.executable, "-c", f"{program}\n{LOADED}"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split(";")[1:]


@pytest.mark.parametrize(
    ("program", "most", "needless"),
    [
        pytest.param(
            "import mqplug", 1, OPTIONAL | SLOW | {"attr", "click", "importlib.metadata", "pluggy"},
            id="import",
        ),
        pytest.param(
            "import mqplug; mqplug.connect('memory').close()", 90, OPTIONAL | SLOW | {"click"},
            id="connect",
        ),
        pytest.param(
            "from mqplug_cli import run_command; run_command(['--help'])", 25,
            OPTIONAL | SLOW | {"attr", "importlib.metadata", "mqplug.memory", "pluggy"},
            id="help",
        ),
        pytest.param(
            "import mqplug; from mqplug_cli import run_command as run; kept = mqplug.connect('memory://kept'); "
            "kept.create_topic('t'); kept.reset_group('g', 't', mqplug.EARLIEST); "
            "run(['lag', 'memory://kept', 'g'])", 110, OPTIONAL | SLOW,
            id="lag",
        ),
    ],
)  # fmt: skip
def test_a_program_loads_only_what_it_needs(program, most, needless):
    """Importing mqplug, connecting, `mqplug --help` and `lag` load few modules, whatever plugins are installed."""
    loaded = loaded_by(program)
    plugins = {name for name in loaded if name.startswith("mqplug_") and name.partition(".")[0] != "mqplug_cli"}
    assert (needless & set(loaded)) | plugins == set()
    assert len([name for name in loaded if name.partition(".")[0] == "mqplug"]) <= most
    if "--help" in program:
        assert len([name for name in loaded if name.startswith("mqplug_cli")]) <= 6


def test_one_kind_of_use_does_not_load_another():
    """A program that only sends loads no consumer, and one that only reads loads no producer session."""
    sends = "mq.producer('t', create=True).close()"
    reads = "mq.create_topic('t'); list(mq.read('t'))"
    for use, own, other in ((sends, "Producer", "Consumer"), (reads, "Consumer", "Producer")):
        loaded = loaded_by(f"import mqplug\nwith mqplug.connect('memory') as mq: {use}")
        assert f"class {own}" in loaded
        assert f"class {other}" not in loaded


SETTINGS = """
import sys, attrs, mqplug
from mqplug.spi import Capabilities, Descriptor, hookimpl

@attrs.frozen
class Settings:
    servers: list[str]
    name: str | None = None

class Shelf:
    @hookimpl
    def mqplug_describe(self):
        def from_url(url):
            return {"servers": [host.host for host in url.hosts]}
        return Descriptor(name="shelf", settings=Settings, capabilities=Capabilities(), from_url=from_url)

    @hookimpl
    def mqplug_connect(self, settings):
        assert (settings, type(settings.name)) == (Settings(["a", "b"], "x"), str), settings
        raise mqplug.ConnectError("so far")

with mqplug.register("shelf", Shelf()):
    try:
        mqplug.connect("shelf://a,b?name=x")
    except mqplug.ConnectError:
        print("cattrs" in sys.modules)
"""


def test_addresses_and_texts_need_no_converter():
    """Addresses and texts, as in most URLs, become settings without cattrs, which is slow to load."""
    done = subprocess.run([sys.executable, "-c", SETTINGS], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("package", [mqplug, mqplug.introspection], ids=lambda each: each.__name__)
def test_each_public_name_is_loaded_from_its_module(package):
    """The names that type checkers see exist at run time, and are loaded from the same modules."""
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(package))) if isinstance(node, ast.ImportFrom)]
    seen = {each.name: node.module for node in imports for each in node.names if each.name == each.asname}
    assert sorted(seen) == package.__all__
    assert [
        name for name, module in seen.items() if getattr(package, name) is not vars(import_module(module))[name]
    ] == []


def test_a_replaced_connect_stays_replaced():
    """Loading the other public names keeps a `connect` that a test replaced."""
    program = "import mqplug; mqplug.connect = print; mqplug.EARLIEST; mqplug.connect('replaced')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "replaced\n"
