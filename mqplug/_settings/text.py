"""Values that were written as text, because their place has no other types."""

from __future__ import annotations


class Text(str):
    """A value that was written as text because its place has nothing else: a URL, a variable, ``${…}`` in a file.

    It is read as the type that the setting wants.
    """

    __slots__ = ()
