"""The topics of any mqplug backend as Spark data frames.

Installed beside PySpark it needs no registration::

    spark.read.format("mqplug").option("url", "kafka://host:9092").option("subscribe", "orders").load()

Programs that disable the discovery call ``spark.dataSource.register(MqplugDataSource)``.
"""

from __future__ import annotations

from mqplug_spark._source import MqplugDataSource

__version__ = "0.1.0"

__all__ = ["MqplugDataSource"]
