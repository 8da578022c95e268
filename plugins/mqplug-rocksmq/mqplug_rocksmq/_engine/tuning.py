"""How RocksDB is set up: what was measured to be fast, within the memory that a store may take.

No manager of write buffers is needed: RocksDB has writers wait when all buffers of a column family are full, so that
their number and size are a bound by themselves.
"""

from __future__ import annotations

import resource
from typing import Final, Literal

import attrs
from rocksdict import BlockBasedOptions, Cache, DBRecoveryMode, Options
from rocksdict import DBCompressionType as Kind

from mqplug_rocksmq._settings import Compression, RocksMQSettings

_MIB_BYTES: Final = 1 << 20
_MAX_OPEN_FILES: Final = 4096
_DATA_BUFFER_COUNT: Final = 6
_META_BUFFER_COUNT: Final = 2
DEFAULT_MEMORY_BYTES: Final = 256 * _MIB_BYTES

RecoveryMode = Literal["strict", "lenient"]


@attrs.frozen
class Tuning:
    """How much memory a store may take beyond what the interpreter needs, how much disk (None is no limit), and how.

    A sixteenth of the memory is one write buffer, and there are six; an eighth is the cache of blocks. Table files are
    not mapped into memory: blocks that are compressed are copied anyway, so that reading is no faster. Others would be
    read twice as fast, but what is mapped counts as memory of the process, up to all of the log.
    """

    memory: int = DEFAULT_MEMORY_BYTES
    disk: int | None = None
    compression: Compression = "lz4"
    max_ballast_bytes: int | None = None

    @property
    def ballast_bytes(self) -> int:
        """How large the ballast may get: it holds what the write buffers hold, which opening writes into tables."""
        most = self.memory // 2 if self.max_ballast_bytes is None else self.max_ballast_bytes
        return most if self.disk is None else min(most, self.disk // 8)

    @property
    def table_bytes(self) -> int:
        """How large one table may get: the room of dropped messages comes back by tables."""
        return 64 * _MIB_BYTES if self.disk is None else max(4 * _MIB_BYTES, min(64 * _MIB_BYTES, self.disk // 16))

    @property
    def step_bytes(self) -> int:
        """How many bytes of messages come between two looks at whether there are too many."""
        return 0 if self.disk is None else min(512 * _MIB_BYTES, self.disk // 32)

    @property
    def budget_bytes(self) -> int | None:
        """How many bytes of messages may be kept.

        The rest is for the ballast, the write-ahead log and for merging, when RocksDB writes anew what it has, before
        it removes the old files: that is everything in a small store, and a gigabyte in a large one.
        """
        if self.disk is None:
            return None
        tables = self.disk - 2 * self.wal_bytes - self.ballast_bytes
        return max(tables // 2 - self.step_bytes, tables - 4 * self.step_bytes - 1024 * _MIB_BYTES)

    @property
    def wal_bytes(self) -> int:
        """How large the write-ahead log may grow before what it protects is moved to tables."""
        return 64 * _MIB_BYTES if self.disk is None else min(64 * _MIB_BYTES, self.disk // 8)

    def options(self) -> Options:
        """The options of the database and of small values."""
        options = _options(self, self.memory // 64)
        options.set_max_write_buffer_number(_META_BUFFER_COUNT)
        return options

    def families(self, recovery: RecoveryMode) -> tuple[Options, dict[str, Options]]:
        """The options of the database, and those of each column family."""
        table, small = _tables(Cache(self.memory // 8))
        data = _options(self, self.memory // 16)
        data.set_max_write_buffer_number(_DATA_BUFFER_COUNT)
        data.set_block_based_table_factory(table)
        meta = self.options()
        meta.set_block_based_table_factory(small)
        database = self.options()
        if recovery == "lenient":
            database.set_wal_recovery_mode(DBRecoveryMode.skip_any_corrupted_record())
        return database, {"data": data, "meta": meta}


def tuning_of(settings: RocksMQSettings) -> Tuning:
    """Return how RocksDB is set up for a store with these settings."""
    return Tuning(settings.memory_max_bytes, settings.disk_max_bytes, settings.compression, settings.ballast_max_bytes)


def _tables(cache: Cache) -> tuple[BlockBasedOptions, BlockBasedOptions]:
    data, meta = BlockBasedOptions(), BlockBasedOptions()
    data.set_block_size(64 << 10)
    for table in (data, meta):
        table.set_block_cache(cache)
    return data, meta


def _options(tuning: Tuning, buffer: int) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_write_buffer_size(buffer)
    options.set_target_file_size_base(tuning.table_bytes)
    options.set_max_total_wal_size(tuning.wal_bytes)
    options.set_max_open_files(_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    options.set_max_file_opening_threads(1)
    options.set_compression_type(getattr(Kind, tuning.compression)())
    options.set_max_log_file_size(4 * _MIB_BYTES)
    options.set_keep_log_file_num(2)
    return options


def _open_files(limit: int) -> int:
    """Return how many files RocksDB may hold open: not without a bound, because each takes memory."""
    return _MAX_OPEN_FILES if limit == resource.RLIM_INFINITY else min(_MAX_OPEN_FILES, limit // 2)
