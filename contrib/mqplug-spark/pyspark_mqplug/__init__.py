"""Where Spark finds ``format("mqplug")``: it looks for ``DefaultSource`` in every package named ``pyspark_*``.

A package of that kind that does not import hides all others, so nothing but the class is imported here.
"""

from __future__ import annotations

from mqplug_spark._source import MqplugDataSource as DefaultSource

__all__ = ["DefaultSource"]
