"""Distributions that are made for one test: metadata and modules in a folder on ``sys.path``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

BACKEND = """
    import attrs
    from mqplug import memory
    from mqplug.spi import Descriptor, hookimpl

    @hookimpl
    def mqplug_describe():
        return attrs.evolve(memory.mqplug_describe(), name={name!r}, api_version={version})

    mqplug_connect = memory.mqplug_connect
    mqplug_open_producer = memory.mqplug_open_producer
    mqplug_open_consumer = memory.mqplug_open_consumer
    mqplug_open_stage = memory.mqplug_open_stage
    mqplug_open_transactions = memory.mqplug_open_transactions
    mqplug_resolve_start = memory.mqplug_resolve_start
    mqplug_move_group = memory.mqplug_move_group
    mqplug_watermarks = memory.mqplug_watermarks
    mqplug_bounds = memory.mqplug_bounds
    mqplug_administer = memory.mqplug_administer
"""

Plant = Callable[..., None]


@contextmanager
def field(folder: Path) -> Iterator[Plant]:
    """Yield a function that plants a distribution; at the end all planted ones are removed."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield lambda *args, **keywords: plant(folder, *args, **keywords)
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        importlib.invalidate_caches()


def plant(folder: Path, distribution: str, entry_points: str, version: str = "1.2.3", **modules: str) -> None:
    """Make a distribution with these entry points (the text of its file) and modules (name and source)."""
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(dedent(entry_points))
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(dedent(source))
    importlib.invalidate_caches()


def plant_backend(plant: Plant, name: str, source: str | None = None, api_version: int = 1) -> None:
    """Make a distribution ``acme-NAME`` with a backend NAME in a module ``acme_NAME``; a working one by default."""
    source = source if source is not None else BACKEND.format(name=name, version=api_version)
    plant(f"acme-{name}", f"[mqplug.backends]\n{name} = acme_{name}\n", **{f"acme_{name}": source})
