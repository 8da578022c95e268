"""Makes ``format("mqplug")`` known to Spark, which looks for ``DefaultSource`` in each package named ``pyspark_*``.

If one of these packages fails to import, Spark finds none of them. So only the class is imported here.
"""

from __future__ import annotations

from mqplug_spark._source import MqplugDataSource as DefaultSource

__all__ = ["DefaultSource"]
