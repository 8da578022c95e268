"""Loads what the test runs of all distributions share: the marks of day and night, and the servers of a run."""

from __future__ import annotations

from importlib.util import find_spec

# Runs of the contract from an environment that lies in this folder find this file, too, but not tests/helpers.
if find_spec("day_and_night"):
    pytest_plugins = ["day_and_night", *(["run_servers"] if find_spec("mqplug_devbrokers") else [])]
