"""The machine and the versions of a run. Nothing here names the machine, its paths or its addresses."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import mqplug


def describe_machine() -> str:
    """Return the versions, the processors and the load, in one line."""
    versions = f"mqplug {mqplug.__version__}, Python {platform.python_version()}"
    return f"{versions}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"


def machine_as_data() -> dict[str, Any]:
    """Return the processors, the memory, the operating system and the load."""
    return {
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1),
        "system": _system(),
        "load_at_end": round(os.getloadavg()[0], 1),
    }


def installed_versions(packages: Iterable[str]) -> Mapping[str, str]:
    """Return the versions of Python, of mqplug and of those packages that are installed."""
    found = {"Python": platform.python_version(), "mqplug": mqplug.__version__}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def broker_versions(brokers: Iterable[str]) -> Mapping[str, str]:
    """Return the versions of the servers that mqplug-devbrokers starts."""
    if not (wanted := list(brokers)):
        return {}
    from mqplug_devbrokers import KafkaServer, PulsarServer  # not installed where no suite of brokers runs

    servers = {"Kafka": KafkaServer, "Pulsar": PulsarServer}
    return {name: servers[name]().version for name in wanted}


def _processor() -> str:
    """Return the model of the processor, where Linux knows it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _system() -> str:
    """Return the distribution, and the kernel by its first two numbers."""
    kernel = ".".join(platform.release().split(".")[:2])
    kernel = f"{platform.system()} {kernel} on {platform.machine()}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except OSError:
        return kernel
