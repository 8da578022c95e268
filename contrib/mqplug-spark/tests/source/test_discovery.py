"""How Spark finds the data source."""

from __future__ import annotations

import subprocess
import sys

from mqplug_spark import MqplugDataSource
from pyspark_mqplug import DefaultSource


def test_the_package_that_spark_looks_into_has_the_source() -> None:
    """Spark looks for DefaultSource in packages named pyspark_*."""
    assert DefaultSource is MqplugDataSource
    assert DefaultSource.name() == "mqplug"


def test_looking_for_sources_imports_little() -> None:
    """The package, which Spark imports in every program that names any source, imports nothing heavy."""
    program = "import sys, pyspark_mqplug; print(*{'mqplug', 'attrs', 'pyarrow'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == ""
