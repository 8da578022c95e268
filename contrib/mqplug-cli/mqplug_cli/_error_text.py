"""The text of an error on the command line."""

from __future__ import annotations

import re
from typing import Final

import mqplug

DEBUG_VARIABLE = "MQPLUG_DEBUG"

_FLAGS: Final = (  # the words of the API, and of the command line
    (r"Create it (with create_topic(, or open with create=True)?|first)", r"Create it with mqplug create"),
    (r"pass exist_ok=True", r"give --exist-ok"),
    (r"Drop must_exist=True", r"Create the group with mqplug seek --create"),
    (r"reset_group\(\)", r"mqplug seek --create"),
    (r"(client\.)?groups\('?([^')]*)'?\)", r"mqplug groups \2"),
    (r"topics\(\)", r"mqplug topics"),
    (r"open a consumer with this group first", r"read with mqplug consume --group first"),
    (r"Seek to EARLIEST, or \w+ missing='next'", r"Choose a later place, such as earliest"),
    (r"(Say|Set|Use|Pass) missing='next' .*", r"Choose a later place, such as earliest"),
    (r"Pass a longer timeout", r"Give a longer --timeout"),
    (r"Leave options= out", r"Leave --set out"),
    (r"Check client\.capabilities", r"See mqplug caps"),
    (r"connect\('rocksmq', path='\./mq'\)", r"a URL such as rocksmq:///path"),
    (r"connect\('(kafka://[^']*)'\)", r"a URL such as \1"),
    (r"connect\(Path\('([^']*)'\)\)", r"the path of the file, ./\1"),
    (r"connect with create=true", r"give ?create=true in the URL"),
)
_SET: Final = re.compile(r"\b[Ss](?:ay|et) ([a-z_]+)='?([^\s',.]*)'?")
_NAMED: Final = re.compile(r"(?<![?\w])([a-z]+(?:_[a-z]+)*)=(?![\w'\[])")


def error_line(error: Exception) -> str:
    """Return an error in one line, with its fix in the words of the command line."""
    if isinstance(error, mqplug.Error):
        text = str(error)
        fix = error.fix or ""
        return " ".join((text.removesuffix(fix) + spoken(fix)).split())
    if type(error) is ValueError:  # an invalid argument of a call
        return " ".join(str(error).split())
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text}. Set {DEBUG_VARIABLE}=1 for the traceback"


def spoken(fix: str) -> str:
    """Return a fix with the flags and verbs of the command line in place of the API's arguments and calls."""
    for called, flag in _FLAGS:
        fix = re.sub(called, flag, fix)
    return _NAMED.sub(r"\1", _SET.sub(_setting, fix))


def _setting(found: re.Match[str]) -> str:
    name, value = found[1], found[2].lower()
    to = f" to {value}" if value else ""
    return f"{found[0][0]}et {name}{to}, in the URL as ?{name}={value or '...'} or in mqplug.toml"
