"""Build the compiled parts from the sources in this tree, check their wheels, and install them.

Usage: python .ci/native.py [NAME ...], in the environment to install into. NAME is a distribution of plugins/, such as
mqplug-kafka-native; without one, all are built. `--release FOLDER` also keeps wheels to publish, for x86-64 and arm64,
that need no newer glibc than 2.17, and installs those that fit; zig compiles them (`pip install ziglang`).

Each run rebuilds, with warnings as errors, so that no test runs code compiled before the last change.
MQPLUG_NATIVE_CFLAGS adds flags, such as -fsanitize=address. Without a compiler nothing is installed, and the tests are
skipped; if CI is true, that is an error.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from wheels import ROOT, build, check_compiled, compiler_is_there, uv

WARNINGS = "-Wall -Wextra -Wno-unused-parameter -Werror"  # some functions do not need all parameters
OLDEST_GLIBC = "2.17"
MACHINES = ("x86_64", "aarch64")


def main() -> None:
    """Build, check and install the named parts, and build them for other machines if asked to."""
    parser = argparse.ArgumentParser(prog=".ci/native.py")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--release", type=Path, metavar="FOLDER", help="keep wheels for x86-64 and arm64 here")
    given = parser.parse_args()
    folders = [ROOT / "plugins" / name for name in given.names] or sorted(ROOT.glob("plugins/mqplug-*-native"))
    if not compiler_is_there():
        return
    flags = f"{WARNINGS} {os.environ.get('MQPLUG_NATIVE_CFLAGS', '')}"
    with TemporaryDirectory() as out:
        wheels = [build(folder, Path(out), MQPLUG_NATIVE_CFLAGS=flags) for folder in folders]
        for wheel in wheels:
            check_compiled(wheel, sanitized="-fsanitize" in flags)
        uv("pip", "install", "--python", sys.executable, "--no-deps", "--reinstall", *wheels)
    for folder in folders if given.release else ():
        for machine in MACHINES:
            wheel = build_for(machine, folder, given.release)
            check_compiled(wheel, OLDEST_GLIBC)
            if machine == platform.machine():
                uv("pip", "install", "--python", sys.executable, "--no-deps", "--reinstall", wheel)


def build_for(machine: str, folder: Path, out: Path) -> Path:
    """Build the wheel of one part for a kind of machine and an old glibc with zig."""
    zig = shlex.join([sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{OLDEST_GLIBC}"])
    tag = f"manylinux_{OLDEST_GLIBC.replace('.', '_')}_{machine}"
    return build(
        folder, out, f"--config-setting=--build-option=--plat-name={tag}",
        CC=zig, LDSHARED=f"{zig} -shared", CFLAGS="-O2", LDFLAGS="-s",
    )  # fmt: skip


if __name__ == "__main__":
    main()
