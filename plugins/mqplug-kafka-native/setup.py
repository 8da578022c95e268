"""Builds the C part. If that fails, the package is installed without it, and its import raises ``ImportError``."""

from __future__ import annotations

import os
import shlex

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "mqplug_kafka_native._native",
            ["mqplug_kafka_native/_native.c", "mqplug_kafka_native/_collecting.c"],
            depends=["mqplug_kafka_native/_collecting.h"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            extra_compile_args=["-std=c11", *shlex.split(os.environ.get("MQPLUG_NATIVE_CFLAGS", ""))],
            libraries=["dl"],
            optional=True,
        )
    ]
)
