"""A real Milvus. What it writes is read in the tests of mqplug-milvus."""

from __future__ import annotations

import importlib.util
import platform

import pytest

from mqplug_devbrokers import BrokerError, MilvusServer, MissingTool


def test_without_its_package(monkeypatch):
    """Without the package the error says how to install it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(MissingTool, match=r"pip install 'mqplug-devbrokers\[milvus\]'|AVX"):
        MilvusServer().start()


def test_another_machine(monkeypatch):
    """On a machine for which there is no program, the error names the machine."""
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(MissingTool, match="linux on aarch64"):
        MilvusServer().start()


def test_before_it_was_started():
    """What needs a started server says so, and it can be closed."""
    server = MilvusServer()
    assert not server.running
    with pytest.raises(BrokerError, match="not started"):
        server.kill()
    server.close()
