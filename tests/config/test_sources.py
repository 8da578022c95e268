"""The sources of settings: keywords, URLs, mappings, files and the environment, and their precedence."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import attrs
import pytest
from config_backends import Fake, Fakes, fakes

import mqplug
from mqplug.spi import hookimpl

__all__ = ["fakes"]

KAFKA = """
backend = "kafka"

[kafka]
servers = ["one:9092", "two:9092"]
username = "me"
password = "${KAFKA_PASSWORD}"
tls = "${KAFKA_TLS}"

[kafka.librdkafka]
"linger.ms" = "20"
"""


def opened(fakes: Fakes, name: str, *target: Any, **settings: Any) -> Any:
    """Return the settings that the backend got."""
    with mqplug.connect(*target, **settings) as mq:
        assert mq.backend == name
    return fakes[name].given


def write(path: Path | str, text: str) -> Path:
    """Return a file with this text."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# files -------------------------------------------------------------------------------------------------------------


def test_a_toml_file_is_read(fakes: Fakes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A path is read as a TOML file; variables are filled in and converted to the expected types."""
    monkeypatch.setenv("KAFKA_PASSWORD", "s3cret")
    monkeypatch.setenv("KAFKA_TLS", "true")
    given = opened(fakes, "kafka", write(tmp_path / "mine.toml", KAFKA))
    assert given.servers == ["one:9092", "two:9092"]
    assert (given.password, given.tls, given.librdkafka) == ("s3cret", True, {"linger.ms": "20"})


def test_a_yaml_file_is_read(fakes: Fakes, tmp_path: Path) -> None:
    """YAML files are read in the same way."""
    pytest.importorskip("yaml")
    path = write(tmp_path / "mine.yaml", "kafka:\n  servers: [one, two]\n  librdkafka: {linger.ms: '20'}\n")
    assert opened(fakes, "kafka", path).servers == ["one", "two"]


def test_without_pyyaml_it_says_what_to_install(fakes: Fakes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """YAML needs an extra, and the error names it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(mqplug.ConfigError, match=r"pip install 'mqplug\[yaml\]'"):
        mqplug.connect(write(tmp_path / "mine.yaml", "mode: cluster"))


def test_files_are_looked_for_in_order(fakes: Fakes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """MQPLUG_CONFIG, else the working directory, else the user's own: exactly one file is read."""
    write(tmp_path / "xdg/mqplug/mqplug.toml", "[rocksmq]\npath = 'user'\n")
    assert opened(fakes, "rocksmq").path == "user"
    write("mqplug.toml", "[rocksmq]\npath = 'here'\n")
    assert opened(fakes, "rocksmq").path == "here"
    monkeypatch.setenv("MQPLUG_CONFIG", str(write(tmp_path / "named.toml", "[rocksmq]\npath = 'named'\n")))
    assert opened(fakes, "rocksmq").path == "named"


def test_the_users_own_file_is_below_home(fakes: Fakes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without XDG_CONFIG_HOME it is ~/.config/mqplug/mqplug.toml."""
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / ".config/mqplug/mqplug.toml", "[rocksmq]\npath = 'home'\n")
    assert opened(fakes, "rocksmq").path == "home"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("absent.toml", None, "absent.toml cannot be read: No such file"),
        ("x.ini", "[kafka]", "neither .toml nor .yaml"),
        ("x.toml", "a = \n", "is not TOML: .*line 1"),
        ("x.yaml", "a: [", "is not YAML at line"),
        ("x.yaml", "- a", "does not contain a table"),
        ("x.toml", "[kafak]\n", "unknown section 'kafak' in .*x.toml.*Did you mean 'kafka'"),
        ("x.toml", "bakend = 'kafka'", "unknown key 'bakend' in .*x.toml.*Did you mean 'backend'"),
        ("x.toml", "kafka = 3", "'kafka' in .*x.toml: expected a table, not int"),
        ("x.toml", "servers = ['x']", "unknown key 'servers' in .*Put a backend's settings into its section"),
        ("x.toml", "backend = 3", "'backend' in .*x.toml: expected str, not int"),
        ("x.toml", "extension = 3", "'extension' in .*: expected a table"),
        ("x.toml", "[extension]\nfaults = 3", "'extension.faults' in .*: expected a table"),
        ("x.toml", "[plugins]\nalow = []", "unknown setting 'plugins.alow' in .*Did you mean 'plugins.allow'"),
        ("x.toml", "[plugins]\nallow = 3", "'plugins.allow' in .*: expected a list, not int"),
        (
            "x.toml",
            "[kafka]\nservers = ['x']\nserver = 1",
            "unknown setting 'kafka.server' in .*Did you mean 'kafka.servers'",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_named(
    fakes: Fakes, tmp_path: Path, name: str, text: str | None, says: str
) -> None:
    """An error names the file and the key."""
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    path = tmp_path / name
    if text is not None:
        write(path, text)
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect(path)


def test_a_file_that_is_no_text(fakes: Fakes, tmp_path: Path) -> None:
    """Invalid UTF-8 is reported, and not shown."""
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(mqplug.ConfigError, match="it is not UTF-8"):
        mqplug.connect(path)


def test_missing_variables_are_named_with_their_keys(fakes: Fakes, tmp_path: Path) -> None:
    """References to unset variables are reported all at once, with variable and key."""
    with pytest.raises(mqplug.ConfigError, match=r"'kafka.password' in .*needs .* 'KAFKA_PASSWORD'.*'kafka.tls' in"):
        mqplug.connect(write(tmp_path / "x.toml", KAFKA))


def test_a_missing_variable_of_another_section_does_not_matter(fakes: Fakes, tmp_path: Path) -> None:
    """A program that runs on RocksMQ needs no password for Kafka."""
    path = write(tmp_path / "x.toml", KAFKA + "[rocksmq]\npath = 'x'\n")
    assert opened(fakes, "rocksmq", path, backend="rocksmq").path == "x"
    assert mqplug.configured("kafka", path)


def test_a_missing_variable_of_an_extension_is_named(fakes: Fakes, noted: Any, tmp_path: Path) -> None:
    """A missing variable in an extension's settings is reported with its key, also in lists and above the sections."""
    text = "extensions = ['first']\n[kafka]\nservers = ['x']\n[extension.first]\nseed = ['${SEED}']\n"
    with pytest.raises(mqplug.ConfigError, match=r"'extension.first.seed' in .*SEED'"):
        mqplug.connect(write(tmp_path / "x.toml", text))
    with pytest.raises(mqplug.ConfigError, match=r"'backend' in .*BACKEND'"):
        mqplug.connect(write(tmp_path / "y.toml", "backend = '${BACKEND}'"))


def test_a_dollar_may_be_written(fakes: Fakes, tmp_path: Path) -> None:
    """`$${` means a plain `${`."""
    path = write(tmp_path / "x.toml", "[kafka]\nservers = ['x']\nusername = 'me'\npassword = 'a$${b}$c'\n")
    assert opened(fakes, "kafka", path).password == "a${b}$c"


# the environment ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "field", "expected"),
    [
        ({"MQPLUG_KAFKA_SERVERS": "one:9092, two:9092,"}, "servers", ["one:9092", "two:9092"]),
        ({"MQPLUG_KAFKA_TLS": "true"}, "tls", True),
        ({"MQPLUG_KAFKA_TLS": "0"}, "tls", False),
        ({"MQPLUG_KAFKA_MESSAGE_MAX_BYTES": "5"}, "message_max_bytes", 5),
        ({"MQPLUG_KAFKA_TIMEOUT_RATIO": "0.5"}, "timeout_ratio", 0.5),
        ({"MQPLUG_KAFKA_LIBRDKAFKA": "linger.ms=20, a=b=c"}, "librdkafka", {"linger.ms": "20", "a": "b=c"}),
        ({"MQPLUG_KAFKA_CA_FILE": "ca.pem"}, "ca_file", "ca.pem"),
        ({"MQPLUG_KAFKA_CA_FILE": ""}, "ca_file", None),
    ],
)
def test_variables_are_read_as_the_type_that_is_wanted(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], field: str, expected: object
) -> None:
    """A list is split at commas, a number becomes a number; an empty variable counts as unset."""
    for name, text in {"MQPLUG_KAFKA_SERVERS": "x", **variables}.items():
        monkeypatch.setenv(name, text)
    assert getattr(opened(fakes, "kafka"), field) == expected


def test_the_environment_alone_is_enough(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables can set backend, mode and URL without a file."""
    monkeypatch.setenv("MQPLUG_PULSAR_SERVICE_URL", "pulsar://host")
    monkeypatch.setenv("MQPLUG_ROCKSMQ_PATH", "mq")
    assert opened(fakes, "rocksmq").path == "mq"
    monkeypatch.setenv("MQPLUG_MODE", "cluster")
    assert opened(fakes, "pulsar").service_url == "pulsar://host"
    monkeypatch.setenv("MQPLUG_URL", "kafka://host:1")
    assert opened(fakes, "kafka").servers == ["host:1"]
    monkeypatch.delenv("MQPLUG_URL")
    monkeypatch.setenv("MQPLUG_BACKEND", "memory")
    with mqplug.connect() as mq:
        assert mq.backend == "memory"


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("MQPLUG_KAFKA_SERVRES", "'MQPLUG_KAFKA_SERVRES'.*Did you mean 'MQPLUG_KAFKA_SERVERS'"),
        ("MQPLUG_KAFKA_TIMEOUT_RATIO", "'MQPLUG_KAFKA_TIMEOUT_RATIO': expected float, written as a number"),
        ("MQPLUG_KAFKA_TLS", "'MQPLUG_KAFKA_TLS': expected bool, written as true or false"),
        ("MQPLUG_KAFKA_MESSAGE_MAX_BYTES", "'MQPLUG_KAFKA_MESSAGE_MAX_BYTES': expected int, written as a whole number"),
        ("MQPLUG_KAFKA_LIBRDKAFKA", "'MQPLUG_KAFKA_LIBRDKAFKA': expected a mapping, written as key=value"),
        ("MQPLUG_MODE", "'MQPLUG_MODE': expected one of 'standalone', 'cluster'"),
        ("MQPLUG_URL", "is not a URL"),
    ],
)
def test_a_wrong_variable_is_named(fakes: Fakes, monkeypatch: pytest.MonkeyPatch, variable: str, says: str) -> None:
    """An error about a variable names it."""
    monkeypatch.setenv("MQPLUG_KAFKA_SERVERS", "host")
    monkeypatch.setenv(variable, "nonsense")
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect()


def test_a_misspelt_variable_of_an_address_is_named(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt address variable is named, even if no other source has an address."""
    monkeypatch.setenv("MQPLUG_KAFKA_SERVRES", "host")
    with pytest.raises(mqplug.ConfigError, match="Did you mean 'MQPLUG_KAFKA_SERVERS'"):
        mqplug.connect()


def test_other_variables_are_left_alone(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of ours that belong to no section of the chosen backend are ignored."""
    for name in ("MQPLUG_DEBUG", "MQPLUG_TIME_SCALE", "MQPLUG_SKIP_MISSING_PYTHON", "MQPLUG_PULSAR_NONSENSE"):
        monkeypatch.setenv(name, "1")
    assert opened(fakes, "kafka", "kafka", servers=["x"]).servers == ["x"]


# precedence --------------------------------------------------------------------------------------------------------


def test_keywords_win_over_the_environment_and_that_over_the_file(
    fakes: Fakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each key, the strongest source that sets it wins."""
    write("mqplug.toml", "[kafka]\nservers = ['file']\nca_file = 'file'\nmechanism = 'file'\n")
    monkeypatch.setenv("MQPLUG_KAFKA_CA_FILE", "environment")
    monkeypatch.setenv("MQPLUG_KAFKA_MECHANISM", "environment")
    given = opened(fakes, "kafka", mechanism="keyword")
    assert (given.servers, given.ca_file, given.mechanism) == (["file"], "environment", "keyword")


def test_the_choice_is_overridden_too(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """`backend` and `mode` follow the same order."""
    write("mqplug.toml", "backend = 'rocksmq'\n[rocksmq]\npath = 'x'\n[kafka]\nservers = ['x']\n[pulsar]\n")
    assert opened(fakes, "rocksmq").path == "x"
    monkeypatch.setenv("MQPLUG_BACKEND", "kafka")
    assert opened(fakes, "kafka").servers == ["x"]
    assert opened(fakes, "rocksmq", backend="rocksmq").path == "x"
    monkeypatch.setenv("MQPLUG_MODE", "cluster")
    with pytest.raises(mqplug.ConfigError, match="'backend' names, is a log of one machine"):
        mqplug.connect(backend="rocksmq")


def test_a_stronger_url_wins_over_a_weaker_name(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """MQPLUG_URL overrides the file's backend, and drops all settings of the file, above all a password."""
    write("mqplug.toml", "backend = 'kafka'\n[kafka]\nservers = ['file']\nusername = 'me'\npassword = 's3cret'\n")
    monkeypatch.setenv("MQPLUG_URL", "kafka://elsewhere")
    given = opened(fakes, "kafka")
    assert (given.servers, given.username, given.password) == (["elsewhere"], None, None)


def test_keywords_win_over_a_url(fakes: Fakes) -> None:
    """A URL sets the address, and keywords set what does not belong in a URL."""
    given = opened(fakes, "kafka", "kafka://host?message_max_bytes=5&tls=true", message_max_bytes=6)
    assert (given.servers, given.message_max_bytes, given.tls) == (["host"], 6, True)


def test_a_name_adds_the_environment_and_no_file(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """`connect("kafka")` uses the environment's settings of kafka; it ignores files and MQPLUG_BACKEND."""
    write("mqplug.toml", "[kafka]\nmechanism = 'file'\n")
    monkeypatch.setenv("MQPLUG_BACKEND", "pulsar")
    monkeypatch.setenv("MQPLUG_KAFKA_SERVERS", "environment")
    given = opened(fakes, "kafka", "kafka", ca_file="keyword")
    assert (given.servers, given.mechanism, given.ca_file) == (["environment"], "PLAIN", "keyword")


@pytest.mark.parametrize("target", ["kafka://host", {"backend": "kafka", "servers": ["host"]}])
def test_a_url_and_a_mapping_are_complete(fakes: Fakes, monkeypatch: pytest.MonkeyPatch, target: Any) -> None:
    """Nothing is added to a URL or a mapping."""
    monkeypatch.setenv("MQPLUG_KAFKA_CA_FILE", "environment")
    write("mqplug.toml", "[kafka]\nmechanism = 'file'\n")
    given = opened(fakes, "kafka", target)
    assert (given.servers, given.ca_file, given.mechanism) == (["host"], None, "PLAIN")


def test_a_mapping_is_written_flat_or_in_sections(fakes: Fakes) -> None:
    """Settings of the named backend may be flat or in its section; flat ones win."""
    flat = {"backend": "kafka", "servers": ["x"], "librdkafka": {"a": "b"}}
    assert opened(fakes, "kafka", flat).librdkafka == {"a": "b"}
    mixed = {"backend": "kafka", "tls": True, "kafka": {"servers": ["x"], "tls": False}}
    given = opened(fakes, "kafka", mixed)
    assert (given.servers, given.tls) == (["x"], True)


def test_sections_may_be_keywords(fakes: Fakes) -> None:
    """Keywords can express everything that a file can."""
    assert opened(fakes, "pulsar", mode="cluster", pulsar={"service_url": "x"}).service_url == "x"


@pytest.mark.parametrize(
    ("target", "settings", "says"),
    [
        ("kafka", {"backend": "pulsar"}, "both the target and backend= name the backend"),
        ("mqplug.toml", {}, r"is a file, not a backend.*connect\(Path\('mqplug.toml'\)\)"),
        ("kafka://host", {"url": "kafka://other"}, "both the target and url= name the backend"),
        ("kafka://host?tls=true&tls=false", {}, "'tls' more than once"),
        ("kafka://host?tls=maybe", {}, "'kafka.tls': expected bool"),
        ({"backend": "kafka", "servers": ["x"], "kafak": {}}, {}, "unknown section 'kafak'.*'kafka'"),
        ({"kafak": {"servers": ["x"]}}, {}, "'kafak' belongs to no backend.*'kafka'"),
        ({3: "x"}, {}, "a key of the mapping must be a string"),
        (None, {"bakend": "kafka"}, "'bakend' belongs to no backend.*'backend'"),
    ],
)
def test_contradictions_are_named(fakes: Fakes, target: Any, settings: Any, says: str) -> None:
    """Contradictory settings are an error."""
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect(target, **settings)


def test_what_is_no_target() -> None:
    """A target of another type is refused, and the error names the type."""
    with pytest.raises(TypeError, match="a name, a URL, a mapping or a path, not int"):
        mqplug.connect(3)  # type: ignore[arg-type]


# reporting all errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"servers": ["x"], "sasl": {"usernme": "x"}}, "'kafka.sasl.usernme'.*Did you mean 'kafka.sasl.username'"),
        ({"servers": ["x"], "sasl": {"username": 3}}, "'kafka.sasl.username': expected str, not int"),
        ({"servers": ["x"], "sasl": "me"}, "'kafka.sasl': expected a table, not a string"),
        ({"servers": ["x", 3]}, r"'kafka.servers\[1\]': expected str, not int"),
        ({"servers": "x"}, "'kafka.servers': expected a list, not a string"),
        ({"servers": ["x"], "librdkafka": {"linger.ms": 20}}, "'kafka.librdkafka.linger.ms': expected str, not int"),
        ({"servers": ["x"], "librdkafka": []}, "'kafka.librdkafka': expected a table, not list"),
        ({"servers": ["x"], "tls": 1}, "'kafka.tls': expected bool, not int"),
        ({"servers": ["x"], "message_max_bytes": True}, "'kafka.message_max_bytes': expected int, not bool"),
        ({"servers": ["x"], "username": "me"}, "'kafka': half of the credentials.*Give username and password"),
        ({}, "'kafka.servers' is missing"),
    ],
)
def test_a_wrong_setting_is_named_with_its_path(fakes: Fakes, settings: Any, says: str) -> None:
    """A wrong setting is reported before any I/O, with the path of its key and the nearest valid one."""
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect("kafka", **settings)
    assert fakes["kafka"].given is None


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"path": "x", "sync": "never"}, "'rocksmq.sync': expected one of 'always', 'interval', 'os'"),
        ({"path": "x", "interval": -1}, "'rocksmq.interval': must be > 0"),
        ({"path": ""}, "'rocksmq.path'"),
    ],
)
def test_validators_are_named_with_their_path(fakes: Fakes, settings: Any, says: str) -> None:
    """An error from a settings class's own validator is reported in the same way."""
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect("rocksmq", **settings)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("alwyas", r"expected one of 'always', 'interval', 'os', not 'alwyas'.*Did you mean 'always'\?"),
        ("OS", r"not 'OS'.*Did you mean 'os'\?"),
        ("never", r"'os', not 'never' \("),
        (3, r"'os', not int"),
        ("x" * 41, r"'os', not a string"),
        ("s3c\nret", r"'os', not a string"),
    ],
)
def test_a_wrong_choice_is_named_with_the_nearest(fakes: Fakes, given: object, says: str) -> None:
    """An invalid choice is reported with the given value, the allowed ones, and the nearest."""
    with pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect("rocksmq", path="x", sync=given)


def test_a_wrong_choice_is_named_in_a_url_and_a_file(fakes: Fakes, tmp_path: Path) -> None:
    """An invalid choice is reported in a URL and in a file as well."""
    with pytest.raises(mqplug.ConfigError, match=r"'rocksmq.sync'.*not 'alway'.*Did you mean 'always'"):
        mqplug.connect("rocksmq:///x?sync=alway")
    path = write(tmp_path / "x.toml", "[rocksmq]\npath = 'x'\nsync = 'alway'\n")
    with pytest.raises(mqplug.ConfigError, match=r"'rocksmq.sync' in .*not 'alway'.*Did you mean 'always'"):
        mqplug.connect(path)


class Colour(Enum):
    """An enumeration, as a third party's settings may have."""

    RED = "red"
    BLUE = "blue"


@attrs.frozen(kw_only=True)
class Painted:
    """Settings in which ``colour`` is an enumeration, and ``keep`` a duration."""

    name: str = ""
    colour: Colour = Colour.RED
    keep: float | timedelta | None = None


@pytest.mark.parametrize(
    ("target", "colour", "keep"),
    [
        ({"colour": "blue", "keep": 90}, Colour.BLUE, 90),
        ({"colour": Colour.BLUE, "keep": timedelta(days=7)}, Colour.BLUE, timedelta(days=7)),
        ({"keep": "7d"}, Colour.RED, timedelta(days=7)),
        ({"keep": "1.5 h"}, Colour.RED, timedelta(minutes=90)),
        ("?colour=blue&keep=45s", Colour.BLUE, timedelta(seconds=45)),
        ("?keep=7", Colour.RED, 7.0),
    ],
)
def test_enumerations_and_durations_are_read(target: Any, colour: Colour, keep: object) -> None:
    """An ``Enum`` is read by its value; a duration as seconds, a timedelta, or a text with its unit."""
    painted = Fake("painted", Painted)
    with mqplug.register("painted", painted):
        mqplug.connect({"backend": "painted", **target} if isinstance(target, dict) else f"painted://{target}").close()
    assert (painted.given.colour, painted.given.keep) == (colour, keep)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"colour": "rde"}, "'painted.colour': expected one of 'red', 'blue', not 'rde'.*Did you mean 'red'"),
        ({"keep": "7"}, "'painted.keep': expected float or timedelta"),
        ({"keep": "7 years"}, "'painted.keep': expected float or timedelta"),
        ({"keep": "9" * 30 + "d"}, "'painted.keep': expected float or timedelta"),
    ],
)
def test_wrong_enumerations_and_durations_are_named(settings: Any, says: str) -> None:
    """A wrong enumeration or duration is reported with the allowed values."""
    with mqplug.register("painted", Fake("painted", Painted)), pytest.raises(mqplug.ConfigError, match=says):
        mqplug.connect("painted", **settings)


def test_a_path_may_be_a_path(fakes: Fakes, tmp_path: Path) -> None:
    """A text setting accepts an ``os.PathLike``, in a mapping as well."""
    assert opened(fakes, "rocksmq", "rocksmq", path=tmp_path / "mq").path == str(tmp_path / "mq")
    assert opened(fakes, "rocksmq", {"rocksmq": {"path": Path("mq")}}).path == "mq"


def test_all_errors_are_named_together(fakes: Fakes) -> None:
    """One error lists everything that is wrong."""
    with pytest.raises(mqplug.ConfigError) as caught:
        mqplug.connect("kafka", servers="x", tls="yes", usernme="me", sasl={"pasword": "x"})
    for path in ("kafka.servers", "kafka.tls", "kafka.usernme", "kafka.sasl.pasword"):
        assert f"'{path}'" in str(caught.value)


def test_whole_numbers_are_numbers(fakes: Fakes) -> None:
    """An integer is accepted where a float is expected."""
    assert opened(fakes, "rocksmq", "rocksmq", path="x", interval=2).interval == 2.0


# plugins and extensions --------------------------------------------------------------------------------------------


def test_deny_and_allow_are_read_before_anything_is_loaded(fakes: Fakes) -> None:
    """A denied backend is not loaded, and the error names the list that denies it."""
    with pytest.raises(mqplug.PluginError, match="deny"):
        mqplug.connect({"backend": "kafka", "servers": ["x"], "plugins": {"deny": ["kafka"]}})
    with pytest.raises(mqplug.PluginError, match="allow"):
        mqplug.connect({"backend": "kafka", "servers": ["x"], "plugins": {"allow": ["pulsar"]}})


@pytest.mark.parametrize("target", ["kafka://host", "kafka", {"backend": "kafka", "servers": ["x"]}])
def test_the_environment_forbids_everywhere(fakes: Fakes, monkeypatch: pytest.MonkeyPatch, target: Any) -> None:
    """MQPLUG_ALLOW and MQPLUG_DENY apply to every call, and override the file."""
    monkeypatch.setenv("MQPLUG_DENY", "pulsar,kafka")
    with pytest.raises(mqplug.PluginError, match="deny"):
        mqplug.connect(target)
    monkeypatch.delenv("MQPLUG_DENY")
    monkeypatch.setenv("MQPLUG_ALLOW", "memory")
    with pytest.raises(mqplug.PluginError, match="allow"):
        mqplug.connect(target)


class Quiet:
    """An extension that changes nothing."""

    @hookimpl(wrapper=True)
    def mqplug_connect(self) -> Any:
        return (yield)


@pytest.fixture
def noted() -> Any:
    """Two registered extensions, and the settings with which they were made."""
    made: list[tuple[str, dict[str, Any]]] = []

    def maker(name: str) -> Any:
        def make(seed: int = 0) -> object:
            made.append((name, {"seed": seed}))
            return Quiet()

        return make

    with (
        mqplug.register("first", maker("first"), kind="extension"),
        mqplug.register("second", maker("second"), kind="extension"),
    ):
        yield made


def test_extensions_are_made_in_order_with_their_settings(fakes: Fakes, noted: Any, tmp_path: Path) -> None:
    """The file lists extensions in order, and a table has the settings of each."""
    text = "extensions = ['second', 'first']\n[extension.first]\nseed = 7\n[kafka]\nservers = ['x']\n"
    opened(fakes, "kafka", write(tmp_path / "x.toml", text))
    assert noted == [("second", {"seed": 0}), ("first", {"seed": 7})]


def test_extensions_of_the_call_win(fakes: Fakes, noted: Any) -> None:
    """Names or objects given to connect replace those of the configuration."""
    configuration = {"extensions": ["second"], "extension": {"first": {"seed": 3}}, "kafka": {"servers": ["x"]}}
    opened(fakes, "kafka", configuration, extensions=["first", Quiet()])
    assert noted == [("first", {"seed": 3})]
    opened(fakes, "kafka", configuration, extensions=())
    assert noted == [("first", {"seed": 3})]


def test_extensions_are_a_list(fakes: Fakes) -> None:
    """A single name is refused where a list of names is expected."""
    with pytest.raises(TypeError, match="a list of names and objects"):
        mqplug.connect("kafka", servers=["x"], extensions="faults")


def test_the_environment_names_extensions(fakes: Fakes, noted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """MQPLUG_EXTENSIONS lists extensions; one without a settings class gets its settings as texts."""
    monkeypatch.setenv("MQPLUG_KAFKA_SERVERS", "x")
    monkeypatch.setenv("MQPLUG_EXTENSIONS", "second,first")
    monkeypatch.setenv("MQPLUG_EXTENSION_FIRST_SEED", "7")
    opened(fakes, "kafka")
    assert noted == [("second", {"seed": 0}), ("first", {"seed": "7"})]
