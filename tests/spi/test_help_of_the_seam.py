"""``help()`` of the seam explains its names, so that nobody has to read the core."""

from __future__ import annotations

import pydoc
import types
import typing

import attrs
import pytest

from mqplug import spi

ALIASES = [
    name
    for name in spi.__all__
    if isinstance(getattr(spi, name), types.UnionType) or typing.get_origin(getattr(spi, name)) is not None
]


def helped(thing: object) -> str:
    """Return what ``help`` prints."""
    return pydoc.render_doc(thing, renderer=pydoc.plaintext)


@pytest.mark.parametrize("name", ALIASES)
def test_each_alias_is_explained(name: str) -> None:
    """A name for several types has no help of its own: the module's help explains it."""
    assert f"``{name}``\n" in helped(spi)


def test_the_action_lists_all_actions() -> None:
    """Each class that is an action is listed in the help."""
    text = helped(spi).split("``Action``\n")[1].split("``GroupStart``")[0]
    assert {f"``{kind.__name__}``" for kind in typing.get_args(spi.Action)} <= set(
        text.replace(",", " ").replace(".", " ").split()
    )


@pytest.mark.parametrize("mode", typing.get_args(spi.Mode))
def test_the_help_has_each_mode(mode: str) -> None:
    """The help explains each mode."""
    assert f'"{mode}" (' in helped(spi)


def test_a_retention_says_its_unit() -> None:
    """The help of a retention gives its unit, and the meaning of None and infinity."""
    text = helped(spi.CreateTopic)
    assert all(each in text for each in ("in seconds", "math.inf", "None stands for the backend's default"))


def test_pump_says_when_it_is_called_and_returns() -> None:
    """The help of pump says what a driver must do in it, for how long, and in which threads."""
    text = helped(spi.ProducerDriver.pump)
    assert all(each in text for each in ("settle", "0 only looks", "any thread", "threads of its own"))


def test_a_start_with_a_group_may_be_a_mapping() -> None:
    """The help of ConsumerOptions says what a mapping as start contains, and when it is ignored."""
    text = " ".join(helped(spi.ConsumerOptions).split())
    assert "a mapping with a position for every one of ``logs``" in text
    assert "Where the group has a position, it is ignored" in text


@pytest.mark.parametrize("name", [each for each in spi.__all__ if attrs.has(getattr(spi, each))])
def test_each_class_of_data_has_a_docstring(name: str) -> None:
    """Each data class has its own docstring instead of the one that attrs generates."""
    assert getattr(spi, name).__doc__
