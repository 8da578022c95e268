"""The files of a Milvus: its program from the PyPI package `milvus`, unpacked once, and its configuration."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import lzma
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mqplug_devbrokers._cache import provide
from mqplug_devbrokers._errors import MissingTool

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "milvus"
INSTALL = "pip install 'mqplug-devbrokers[milvus]'"
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)(?:\(\w+\))?\s*(?::\s*(.*?))?\s*\}\}")


def require() -> None:
    """Raise ``MissingTool`` if no Milvus can run here."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise MissingTool(
            f"Milvus' package has no program for {sys.platform} on {platform.machine()}, only for Linux x86_64"
        )
    if "avx" not in Path("/proc/cpuinfo").read_text():
        raise MissingTool("this processor has no AVX, which Milvus needs")
    if importlib.util.find_spec(PACKAGE) is None:
        raise MissingTool(f"Milvus is not installed; {INSTALL}")


def version() -> str:
    """Return the installed version."""
    return importlib.metadata.version(PACKAGE)


def program() -> Path:
    """Return the folder with the program and its libraries. Unpack them if this is the first start."""
    require()
    return provide(f"milvus-{version()}", _unpack)


def write_configuration(directory: Path, ports: Mapping[str, int]) -> None:
    """Write `configs/milvus.yaml` from the package's own template, and etcd's configuration beside it."""
    values = {
        "etcd_data_dir": directory / "etcd",
        "etcd_log_path": directory / "etcd.log",
        "etcd_log_level": "error",
        "local_storage_dir": directory / "storage",
        "rocksmq_data_dir": directory / "rocksmq",
        "system_log_path": "",
        **{f"{role}_port": number for role, number in ports.items()},
    }
    known = {name: str(value) for name, value in values.items()}

    def filled(match: re.Match[str]) -> str:
        return known.get(match[1], match[2] or "")

    folder = directory / "configs"
    folder.mkdir(parents=True, exist_ok=True)
    text = _PLACEHOLDER.sub(filled, (_data() / "config.yaml.template").read_text())
    (folder / "milvus.yaml").write_text(text)
    (folder / "glog.conf").write_text((_data() / "glog.conf").read_text())
    client, peer = (f"http://127.0.0.1:{ports[name]}" for name in ("etcd", "etcd_peer"))
    (folder / "etcd.yaml").write_text(
        f"name: default\ndata-dir: {directory / 'etcd'}\n"
        f"listen-client-urls: {client}\nadvertise-client-urls: {client}\n"
        f"listen-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\ninitial-cluster: default={peer}\n"
    )


def _data() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise MissingTool(f"Milvus is not installed; {INSTALL}")
    return Path(found.origin).parent / "data"


def _unpack(folder: Path) -> None:
    for packed in sorted((_data() / "bin").glob("*.lzma")):
        target = folder / packed.stem
        target.write_bytes(lzma.decompress(packed.read_bytes()))
        target.chmod(0o755)
