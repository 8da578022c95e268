"""What Spark calls, called without Spark."""

from __future__ import annotations

import traceback

import pytest
from pyspark.sql.datasource import InputPartition
from spark_options import options

from mqplug import ConnectError, Error
from mqplug_spark._batch_read.reader import MqplugReader
from mqplug_spark._options.backend_settings import BackendSettings
from mqplug_spark._rows.columns import all_columns
from mqplug_spark._source import MqplugDataSource


@pytest.mark.parametrize("nothing", [None, InputPartition(None)])
def test_nothing_planned_is_nothing_read(nothing: InputPartition | None) -> None:
    """Where no range was planned, releases of Spark hand over None or a partition of None: both have no rows."""
    assert list(MqplugReader(options(), all_columns()).read(nothing)) == []


def test_making_a_source_checks_nothing() -> None:
    """Spark makes several sources of each kind: only a question for schema or reader looks at the options."""
    source = MqplugDataSource({"nonsense": "1"})
    with pytest.raises(Error, match="no option 'nonsense'"):
        source.schema()


def test_errors_are_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark prints the whole chain of an error, so what lies below our own error is left out."""
    native = OSError("native words")

    def connect(settings: BackendSettings) -> None:
        raise ConnectError("nobody is there") from native

    monkeypatch.setattr("mqplug_spark._clients.process_clients.connect", connect)
    with pytest.raises(ConnectError) as refused:
        MqplugReader(options(), all_columns()).partitions()
    assert "native words" not in "".join(traceback.format_exception(refused.value))
