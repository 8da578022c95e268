"""Splits a stream of bytes into lines, which keep every byte but the separator."""

from __future__ import annotations


class LineSplitter:
    """Takes a stream piece by piece, and returns the lines that each piece completes."""

    def __init__(self, separator: bytes = b"\n") -> None:
        self._separator = separator
        self._begun: list[bytes] = []  # the pieces of a line without its end, joined once

    def split(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in this piece."""
        if self._separator not in piece:
            self._begun.append(piece)
            return []
        if self._begun:
            piece = b"".join((*self._begun, piece))
        *lines, rest = piece.split(self._separator)
        self._begun = [rest] if rest else []
        return lines

    def rest(self) -> list[bytes]:
        """Return the last line if it has no end, and nothing otherwise."""
        rest, self._begun = b"".join(self._begun), []
        return [rest] if rest else []
