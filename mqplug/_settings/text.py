"""The type of values written as text, for places without other types."""

from __future__ import annotations


class Text(str):
    """A value from a place that holds nothing but text: a URL, a variable, or ``${…}`` in a file.

    It is converted to the setting's type.
    """

    __slots__ = ()
