"""The code that each case executes, measured over a sound backend, and so which cases can notice a mutant at all.

A case that enters none of the functions that a mutant replaces does the same on the mutant as on the sound backend: it
need not be run there.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import NamedTuple

PARTS = ("Connection", "Consumer", "Producer")
MEMORY = "mqplug/memory/"
OURS = ("mqplug/", "mqplug_testing/", "mutants/", "attr/", "<attrs")
SAYS_OF_ITSELF = {"case", "scale", "sound", "patches", "hooks"}


class Function(NamedTuple):
    """A function: its file, its qualified name, and the names that it looks up."""

    path: str
    name: str
    reads: frozenset[str]


@functools.cache
def function_of(code):
    """Return the function of a code object."""
    return Function(_below_root(code.co_filename), code.co_qualname, frozenset(code.co_names))


def _below_root(file):
    path = file.replace("\\", "/")
    for root in ("/mqplug/", "/mqplug_testing/", "/mutants/", "/attr/"):
        if root in path:
            path = root[1:] + path.rpartition(root)[2]
    return path


@contextmanager
def watched():
    """Collect the code that is executed within the block, in any thread."""
    seen = set()

    def note(frame, event, _):
        if event == "call":
            seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


class Reach:
    """How cases ended over a sound backend, their patience and duration, and what they executed."""

    def __init__(self) -> None:
        self.outcomes = {}
        self.patience = {}
        self.seconds = {}
        self._functions = []  # each once; the cases have their numbers
        self._numbers = {}
        self._by_case = {}

    def add(self, case, outcome, seen, *, patience, seconds):
        """Add a case with the functions of mqplug, of the mutants and of attrs that it executed."""
        found = {function_of(code) for code in list(seen)}
        ours = {each for each in found if each.path.startswith(OURS)}
        self.outcomes[case], self.patience[case], self.seconds[case] = outcome, patience, seconds
        self._by_case[case] = {self._number(each) for each in ours}

    def join(self, other):
        """Add everything that another one has."""
        self.outcomes |= other.outcomes
        self.patience |= other.patience
        self.seconds |= other.seconds
        for case, found in other._by_case.items():
            self._by_case[case] = {self._number(other._functions[at]) for at in found}

    def _number(self, function):
        if function not in self._numbers:
            self._numbers[function] = len(self._functions)
            self._functions.append(function)
        return self._numbers[function]

    def looking_up(self, name):
        """Return the cases that execute a function which looks up this name, and which few of the cases execute."""
        counts = Counter(at for found in self._by_case.values() for at in found)
        most = len(self._by_case) // 2
        asking = {at for at, each in enumerate(self._functions) if name in each.reads and counts[at] <= most}
        return {case for case, found in self._by_case.items() if found & asking}

    def candidates(self, kind):
        """Return the cases that can differ on a mutant of this backend, and that pass without the defect."""
        asks = [*_patched(kind), *_overridden(kind)]
        replaced = {at for at, each in enumerate(self._functions) if any(ask(each) for ask in asks)}
        passed = [case for case, outcome in self.outcomes.items() if outcome in ("passed", "refused")]
        return [case for case in passed if self._by_case[case] & replaced]


def replaced_files(kind):
    """Return the files of what a mutant replaces: of its patches, and of the functions of memory that it overrides."""
    found = set()
    for place, name, _ in kind.patches:
        module = place if inspect.ismodule(place) else inspect.getmodule(place)
        found |= {_below_root(module.__file__), *_file(inspect.getattr_static(place, name, None))}
    for name, what in _additions(kind, kind.sound):
        found.update(_file(inspect.getattr_static(kind.sound, name, None)))
        called = [each for each, _ in _additions(what, getattr(kind.sound, name))] if name in PARTS else [name]
        found.update(*(_memory_files()[each] for each in called if each in _memory_files()))
    return found


def _patched(kind):
    for place, name, _ in kind.patches:
        code = _code(inspect.getattr_static(place, name, None))
        if inspect.ismodule(place):
            yield functools.partial(_looks_up, name, place.__name__)
        elif code is None:
            yield functools.partial(_looks_up, name, "")
        else:
            yield functools.partial(_is, function_of(code))


def _overridden(kind):
    sound = kind.sound
    for name, what in _additions(kind, sound):
        if name in PARTS:
            for called, _ in _additions(what, getattr(sound, name)):
                yield functools.partial(_is_memory, called)
        elif code := _code(inspect.getattr_static(sound, name, None)):
            yield functools.partial(_is, function_of(code))
        elif name not in SAYS_OF_ITSELF:
            yield functools.partial(_looks_up, name, "mutants/")


def _additions(kind, base):
    """Return the attributes that a class has, and its base does not."""
    for each in kind.__mro__[: kind.__mro__.index(base)]:
        yield from ((name, what) for name, what in vars(each).items() if not name.startswith("__"))


@functools.cache
def _memory_files():
    """Return the files of the memory backend that define a function, by the function's name."""
    found = defaultdict(set)
    for module in [module for name, module in sys.modules.items() if name.startswith("mqplug.memory")]:
        for place in (module, *filter(inspect.isclass, vars(module).values())):
            for name, what in vars(place).items():
                found[name].update(path for path in _file(what) if path.startswith(MEMORY))
    return found


def _file(what):
    """Return the file of a function, or None for anything else."""
    code = _code(what)
    return [_below_root(code.co_filename)] if code else []


def _code(what):
    if isinstance(what, property):
        what = what.fget
    what = inspect.unwrap(getattr(what, "__func__", what)) if callable(what) or hasattr(what, "__func__") else what
    return getattr(what, "__code__", None)


def _is(wanted, function):
    return function == wanted


def _is_memory(name, function):
    return function.path.startswith(MEMORY) and function.name.rpartition(".")[2] == name


def _looks_up(name, module, function):
    """Return whether a function uses this name of a module, or imports it at each call."""
    stands_there = function.path.startswith(module.replace(".", "/"))
    return name in function.reads and (stands_there or module in function.reads)
