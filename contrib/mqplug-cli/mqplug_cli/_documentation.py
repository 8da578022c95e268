"""The documentation pages of the installed distributions."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

import mqplug

CORE_DISTRIBUTION: Final = "mqplug"
_INCLUDES: Final = "```{include}"


def installed_pages() -> dict[str, Path]:
    """Return each page by name, ``rules`` or ``mqplug-rocksmq/operations``. In a checkout, return those of the
    checkout.
    """
    found = {name: path for each in metadata.distributions() for name, path in _pages_of(each) if path.is_file()}
    if all("/" in name for name in found):  # the core is used from a checkout, whatever plugins are installed
        found |= _of_checkout(Path(mqplug.__file__).parents[1])
    return dict(sorted(found.items()))


def title_of(path: Path) -> str:
    """Return the first heading of a page."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("# ") for line in lines if line.startswith("# ")), path.stem)


def _pages_of(distribution: metadata.Distribution) -> Iterator[tuple[str, Path]]:
    owner = distribution.name
    if not owner.startswith(CORE_DISTRIBUTION):
        return
    for file in distribution.files or ():
        if file.suffix == ".md" and file.parts[-4:-1] == ("share", "doc", owner):
            name = file.stem.lower()
            yield (
                name if owner == CORE_DISTRIBUTION else f"{owner}/{name}",
                Path(str(distribution.locate_file(file))).resolve(),
            )


def _of_checkout(root: Path) -> dict[str, Path]:
    files = [*root.glob("docs/*.md"), root / "CHANGELOG.md", root / "COMPATIBILITY.md"]
    texts = [path for path in files if path.is_file() and not path.read_text(encoding="utf-8").startswith(_INCLUDES)]
    return {path.stem.lower(): path for path in texts}
