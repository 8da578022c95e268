"""The compiled part of a backend: a distribution of its own that reads and sends faster than the vendor's client.

Whether it is used is decided for reading and for sending: by the setting ``native`` of a connection, and once a process
by whether it is installed, fits the client, and gives the same results as the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from logging import Logger
from threading import Lock
from types import ModuleType
from typing import Any, Literal, Protocol

from mqplug._model.errors import ConfigError

__all__ = ["CompiledCollecting", "CompiledPart", "CompiledUse", "Use"]

Use = Literal["reads", "sends"]
_USES: tuple[Use, ...] = ("reads", "sends")
_OFF = "native is 'off'"


class CompiledCollecting(Protocol):
    """Compiled classes through which every submitted record passes. They do what those of the core do in Python.

    ``Row(run, row)`` is the base of a record's handle and has the members ``_run`` and ``_row``.

    ``Rows(run, most, most_bytes)`` are the values and keys of an open run: ``bytes_left``, ``has_room(size)``,
    ``add(value, key, size)``, which returns the row, ``seal()``, ``columns()`` and ``len()``.

    ``Collector(handle, most_bytes, lock)`` adds records: ``follow(rows, keyless, keyed)`` gives it the rows by
    partition, and the partitions of records without a key and with one: always the same, or from an iterator and a
    function; ``collect(value, key)`` returns a handle, or the partition if its rows have no room, or None.
    """

    Row: type[Any]
    Rows: type[Any]
    Collector: type[Any]


class CompiledPart:
    """A compiled part, as far as this process knows it."""

    def __init__(
        self,
        distribution: str,
        client: str,
        load: Callable[[], ModuleType],
        logger: Logger,
        needs: Mapping[Use, str] | None = None,
    ) -> None:
        """Describe the part.

        :param distribution: its name, such as ``mqplug-kafka-native``.
        :param client: the name of the vendor's client.
        :param load: imports its module. It raises ``ImportError`` with the reason if that does not fit the client.
        :param logger: gets a line for each reason to use the client instead, unless that was chosen.
        :param needs: the name in the module that each use needs.
        """
        self.distribution = distribution
        self.client = client
        self.not_installed = f"{distribution} is not installed"
        self._load = load
        self._logger = logger
        self._needs = needs or {}
        self._lock = Lock()
        self._found: tuple[ModuleType | None, str] | None = None  # the module, or the reason why it is missing
        self._proven: set[Use] = set()
        self._refused: dict[Use, str] = {}
        self._logged: set[str] = set()

    @property
    def module(self) -> ModuleType | None:
        """The module, imported once; None if it cannot be used."""
        return self._look()[0]

    def reason_against(self, use: Use) -> str | None:
        """Return why the client does this in the whole process; None if the compiled part does."""
        module, reason = self._look()
        if module is None:
            return reason
        if (needed := self._needs.get(use)) is not None and not hasattr(module, needed):
            return f"{self.distribution} {version(self.distribution)} has no {needed}"
        return self._refused.get(use)

    def refuse(self, use: Use, reason: str) -> None:
        """Have the client do this from now on, in the whole process, and log why."""
        with self._lock:
            is_new = use not in self._refused
            self._refused.setdefault(use, reason)
        if is_new:
            self.log_once(use, reason)

    def prove(self, use: Use) -> None:
        """Note that the first results were those of the client."""
        self._proven.add(use)

    def is_proven(self, use: Use) -> bool:
        """Return whether the first results were those of the client."""
        return use in self._proven

    def log_once(self, uses: str, reason: str) -> None:
        """Log why the client is used, once for each reason, unless by choice."""
        with self._lock:
            is_new = reason not in self._logged
            self._logged.add(reason)
        if is_new and reason not in {_OFF, self.not_installed}:
            self._logger.warning("%s %s instead of %s: %s", self.client, uses, self.distribution, reason)

    def _look(self) -> tuple[ModuleType | None, str]:
        with self._lock:
            if self._found is None:
                self._found = self._import()
            return self._found

    def _import(self) -> tuple[ModuleType | None, str]:
        try:
            return self._load(), ""
        except ModuleNotFoundError as error:
            if error.name == self.distribution.replace("-", "_"):
                return None, self.not_installed
            return None, f"{self.distribution} was installed without its compiled part ({error})"
        except ImportError as error:
            return None, f"{self.distribution} cannot be used: {error}"


class CompiledUse:
    """One connection's use of a compiled part. Made, it raises ``ConfigError`` if the part is required and unusable."""

    def __init__(self, part: CompiledPart, native: Literal["auto", "off", "required"], unfit: str = "") -> None:
        """*unfit* is why the settings need the client; empty if they do not."""
        self._part = part
        self.is_required = native == "required"
        self._unfit = _OFF if native == "off" else unfit
        uses_by_reason: dict[str, list[Use]] = {}
        for use in _USES:
            if not self.usable(use):
                uses_by_reason.setdefault(self._reason(use) or "", []).append(use)
        for reason, uses in uses_by_reason.items():
            part.log_once(" and ".join(uses), reason)

    @property
    def module(self) -> Any:
        """The module. Only for a use that ``usable`` allows."""
        return self._part.module

    def usable(self, use: Use) -> bool:
        """Return whether the compiled part is used. Raise ``ConfigError`` if it is required but cannot be used."""
        reason = self._reason(use)
        if reason is not None and self.is_required:
            name = self._part.distribution
            raise ConfigError(
                f"native is 'required', but {self._part.client} {use}: {reason}",
                fix=f"Run pip install '{name.removesuffix('-native')}[native]' where {name} can be built, or set "
                "native='auto'",
            )
        return reason is None

    def is_proven(self, use: Use) -> bool:
        """Return whether the first results were those of the client."""
        return self._part.is_proven(use)

    def prove(self, use: Use) -> None:
        """Note that the first results were those of the client."""
        self._part.prove(use)

    def refuse(self, use: Use, reason: str) -> None:
        """Have the client do this from now on, in the whole process. Raise ``ConfigError`` if the part is required."""
        self._part.refuse(use, reason)
        self.usable(use)

    def notes(self, over: str) -> list[str]:
        """Return which part reads and which part sends, as sentences for an operator; *over* names the library."""
        reasons = {use: self._reason(use) for use in _USES}
        name = self._part.distribution
        here = f"{name} {version(name)} over {over}" if None in reasons.values() else ""
        said = {use: here if why is None else f"{self._part.client}: {why}" for use, why in reasons.items()}
        if said["reads"] == said["sends"]:
            return [f"reads and sends through {said['reads']}"]
        return [f"{use} through {what}" for use, what in said.items()]

    def _reason(self, use: Use) -> str | None:
        return self._unfit or self._part.reason_against(use)
