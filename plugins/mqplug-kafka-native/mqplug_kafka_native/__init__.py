"""The compiled part of mqplug-kafka. It imports nothing of mqplug, and only mqplug-kafka imports it.

Importing it raises ``ImportError`` if the compiled part was not built, or if confluent-kafka lacks a function.
"""

from __future__ import annotations

from confluent_kafka import cimpl

from mqplug_kafka_native._native import Collector, Reader, Report, Row, Rows, Run, Sender, library_version, load

load(cimpl.__file__)

__all__ = ["Collector", "Reader", "Report", "Row", "Rows", "Run", "Sender", "library_version"]
