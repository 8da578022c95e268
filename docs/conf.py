"""The configuration of Sphinx."""

from __future__ import annotations

from importlib import metadata

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
