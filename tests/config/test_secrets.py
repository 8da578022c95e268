"""Secrets never show: a canary goes down every path that ends in an error, a repr or a report."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import attrs
import pytest
from config_backends import Fake, Fakes, fakes

import mqplug
from mqplug_cli import run_command

__all__ = ["fakes"]

CANARY = "c4nary\n'yellow'"
WORD = "c4nary"


@attrs.frozen(kw_only=True)
class Careless:
    """Settings ``name`` and ``token``, whose validators show what they refuse."""

    name: str = attrs.field(default="", validator=attrs.validators.max_len(5))
    token: str | None = attrs.field(
        default=None, repr=False, validator=attrs.validators.optional(attrs.validators.matches_re("[a-z]+"))
    )
    pin: int | None = attrs.field(default=None, repr=False)
    url: str = attrs.field(default="x://h", validator=attrs.validators.matches_re(r"\w+://[^@]*"))

    def __attrs_post_init__(self) -> None:
        if self.name == "both":
            raise ValueError(f"no token {self.token} with that name")


@pytest.mark.parametrize(
    ("target", "settings"),
    [
        (f"careless://me:{WORD}@host?nonsense=1", {}),
        (f"nosuch://me:{WORD}@host", {}),
        (f"careless://host?token={WORD}&x", {}),
        (f"careless://host?token={WORD}&token={WORD}", {}),
        (f"://me:{WORD}@host", {}),
        (f"careless://me:{WORD}@[host", {}),
        ("careless", {"token": CANARY}),
        ("careless", {"token": CANARY, "tokn": "x"}),
        ("careless", {"token": CANARY.encode()}),
        ("careless", {"token": [CANARY]}),
        ("careless", {"tokn": CANARY}),
        ("careless", {"pin": CANARY}),
        ("careless", {"token": WORD[2:], "name": "both"}),
        ("careless", {"url": f"x://me:{WORD}@host"}),
        ("careless", {"careless": {"token": CANARY}}),
        ("kafka", {"servers": ["x"], "librdkafka": {"sasl.oauthbearer.config": CANARY, "x": 1}}),
        ("kafka", {"servers": ["x"], "sasl": {"password": CANARY, "usernme": "x"}}),
        ("kafka", {"servers": ["x"], "password": CANARY}),
        ("nats", {"hosts": ["x"], "token": WORD, "fail": "refused"}),
        ({"backend": "careless", "token": CANARY}, {}),
        ({"url": f"careless://me:{WORD}@host", "backend": "kafka"}, {}),
        ({"url": [f"careless://me:{WORD}@host"]}, {}),
        ({"token": CANARY}, {}),
        ({"mode": CANARY}, {}),
    ],
)
def test_no_error_shows_a_secret(fakes: Fakes, target: Any, settings: Any) -> None:
    """No error shows a secret: neither its text, nor its repr, nor its cause, nor its pickle."""
    with mqplug.register("careless", Fake("careless", Careless)), pytest.raises((mqplug.Error, TypeError)) as caught:
        mqplug.connect(target, **settings)
    error = caught.value
    copy = pickle.loads(pickle.dumps(error))
    shown = "".join(
        [
            *(str(error), repr(error), str(copy), repr(vars(copy)), repr(pickle.dumps(error))),
            *traceback.format_exception(error),
            *_causes(error),
        ]
    )
    assert WORD not in shown
    assert WORD[2:] not in shown


def _causes(error: BaseException) -> list[str]:
    chain = [each for each in (error.__cause__, error.__context__) if each is not None]
    return [text for each in chain for text in (repr(each), str(each), *_causes(each))]


def test_what_caused_an_error_is_kept_when_it_shows_none(fakes: Fakes) -> None:
    """An error's cause is dropped only if it shows a secret."""
    with pytest.raises(mqplug.ConnectError, match="refused with None") as caught:
        mqplug.connect("nats", hosts=["x"], fail="refused")
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.toml", f"[kafka]\nservers = ['x']\npassword = {WORD}\n"),
        ("x.toml", f"[kafka]\npassword = '{WORD}"),
        ("x.toml", f"url = 'kafka://me:{WORD}@host?x'"),
        ("x.toml", f"[kafka]\nservers = ['x']\npassword = ['{WORD}']"),
        ("x.toml", f"password = '{WORD}'"),
        ("x.yaml", f"kafka:\n  password: *{WORD}\n"),
        ("x.yaml", f"kafka:\n  password: !{WORD} x\n"),
        ("x.yaml", f"kafka: {{password: {WORD}\n"),
    ],
)
def test_no_error_about_a_file_shows_a_secret(fakes: Fakes, tmp_path: Path, name: str, text: str) -> None:
    """An unreadable part of a file is named by its line."""
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(mqplug.ConfigError) as caught:
        mqplug.connect(path)
    assert WORD not in "".join([str(caught.value), *_causes(caught.value)])


def test_no_variable_is_shown(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error about a variable shows only its name."""
    monkeypatch.setenv("MQPLUG_KAFKA_SERVERS", "x")
    monkeypatch.setenv("MQPLUG_KAFKA_TLS", WORD)
    with pytest.raises(mqplug.ConfigError) as caught:
        mqplug.connect()
    assert WORD not in str(caught.value)


def test_nothing_is_logged(fakes: Fakes, caplog: pytest.LogCaptureFixture) -> None:
    """Neither opening nor failing logs a secret."""
    caplog.set_level(logging.DEBUG)
    with mqplug.connect("kafka", servers=["x"], username="me", password=WORD) as mq:
        assert WORD not in repr(mq)
    with pytest.raises(mqplug.ConnectError):
        mqplug.connect("nats", hosts=["x"], token=WORD, fail="refused")
    assert WORD not in caplog.text


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_doctor_masks_secrets(
    fakes: Fakes, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    """Secrets are masked, unset ones are distinguished, and logins in addresses do not show."""
    path = tmp_path / "x.toml"
    path.write_text(
        f"backend = 'kafka'\n[kafka]\nservers = ['x', 'y://me:{WORD}@host']\nusername = 'me'\npassword = '{WORD}'\n"
        f"[kafka.sasl]\npassword = '{WORD}'\n[kafka.librdkafka]\n'sasl.oauthbearer.config' = '{WORD}'\n"
    )
    assert run_command(["doctor", "--config", str(path), *form]) == 0
    printed = capsys.readouterr().out
    assert WORD not in printed
    if form:
        shown = {each["name"]: each["value"] for each in json.loads(printed)["settings"]}
        assert (shown["password"], shown["librdkafka"], shown["sasl.password"]) == ("...", "...", "...")
        assert (shown["key_password"], shown["servers"]) == (None, ["x", "y://...@host"])


@pytest.mark.parametrize("target", [f"nats://host?token={WORD}&fail=refused", f"nats://me:{WORD}@host?tokn=x"])
def test_the_doctor_shows_no_secret_in_an_error(
    fakes: Fakes, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """The doctor's errors show no secret."""
    monkeypatch.setenv("MQPLUG_URL", target)
    assert run_command(["doctor"]) == 1
    printed = capsys.readouterr()
    assert WORD not in printed.out + printed.err
