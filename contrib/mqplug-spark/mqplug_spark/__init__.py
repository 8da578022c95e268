"""A Spark data source for the topics of any mqplug backend.

If it is installed next to PySpark, Spark finds it without registration::

    spark.read.format("mqplug").option("url", "kafka://host:9092").option("subscribe", "orders").load()

Programs that disable discovery call ``spark.dataSource.register(MqplugDataSource)``.
"""

from __future__ import annotations

from mqplug_spark._source import MqplugDataSource

__version__ = "0.1.0"

__all__ = ["MqplugDataSource"]
