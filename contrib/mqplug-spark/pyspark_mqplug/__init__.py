"""The entry point of ``format("mqplug")``: Spark looks for ``DefaultSource`` in each package named ``pyspark_*``.

If one of these packages fails to import, Spark finds none of them. So this one imports only the class.
"""

from __future__ import annotations

from mqplug_spark._source import MqplugDataSource as DefaultSource

__all__ = ["DefaultSource"]
