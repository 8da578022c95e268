"""The Sphinx configuration of the documentation."""

from __future__ import annotations

import re
from importlib import metadata
from typing import TYPE_CHECKING

import benchmark_figures
import modelled_rules
import module_map

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "mqplug"
author = "The mqplug authors"
copyright = author
release = metadata.version("mqplug")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "mqplug"

autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3


def add_anchors(app: object, docname: str, source: list[str]) -> None:
    """Give each rule of the contract an anchor, such as ``contract-rules#seek-33``, which failures link to."""
    if docname == "contract-rules":
        rule = re.compile(r"^\*\*([A-Z]+-\d+)\*\* ·", re.MULTILINE)
        source[0] = rule.sub(lambda found: f"({found[1].lower()})=\n{found[0]}", source[0])


GENERATED = {
    "architecture": module_map.sections,
    "benchmarks": benchmark_figures.sections,
    "modelled-rules": modelled_rules.sections,
}


def add_generated(app: object, docname: str, source: list[str]) -> None:
    """End the page of the architecture with the map of all modules, that of the benchmarks with their figures, and
    that of the modelled rules with their tables.
    """
    if docname in GENERATED:
        source[0] += "\n" + "\n".join(GENERATED[docname]()) + "\n"


def setup(app: Sphinx) -> None:
    """Register the functions that change pages."""
    app.connect("source-read", add_anchors)
    app.connect("source-read", add_generated)
