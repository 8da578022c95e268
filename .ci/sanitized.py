"""Run pytest with the sanitizers' libraries, for compiled parts that were built with -fsanitize=address,undefined.

Usage: python .ci/sanitized.py ARGUMENT ..., as for pytest. A process must load these libraries first, so Python is
restarted with them. Python programs that the tests start also have them; brokers do not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

STARTED_AGAIN = "MQPLUG_SANITIZED"
LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so")  # the last because Pulsar's client throws C++ exceptions
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",  # Python itself leaks memory
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "PYTHONMALLOC": "malloc",  # so that Python's objects have guarded borders too
}


def main() -> None:
    """Restart Python with the libraries, or run pytest if that has been done."""
    if os.environ.pop(STARTED_AGAIN, None):
        run_tests(os.environ.pop("LD_PRELOAD"))
    paths = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in LIBRARIES
    ]
    os.environ.update({**OPTIONS, STARTED_AGAIN: "1", "LD_PRELOAD": " ".join(paths)})
    os.execv(sys.executable, [sys.executable, *sys.argv])


def run_tests(libraries: str) -> None:
    """Run pytest, where `sys.executable` is a Python with the libraries, and end the process."""
    import pytest

    with TemporaryDirectory() as folder:
        python = Path(folder, "python")
        python.write_text(f'#!/bin/sh\nLD_PRELOAD="{libraries}" exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        sys.executable = str(python)
        sys.exit(pytest.main(sys.argv[1:]))


main()
