"""RocksDB's options: measured to be fast within the memory and disk space that a store may use.

No write buffer manager is needed: RocksDB stalls writers when all buffers of a column family are full, so the number
and size of the buffers bound the memory.
"""

from __future__ import annotations

import resource
from typing import Final, Literal

import attrs
from rocksdict import BlockBasedOptions, Cache, DBCompressionType as Kind, DBRecoveryMode, Options

from mqplug_rocksmq._settings import Compression, RocksMQSettings

_MIB_BYTES: Final = 1 << 20
_MAX_OPEN_FILES: Final = 4096
DATA_BUFFER_COUNT: Final = 6
META_BUFFER_COUNT: Final = 2
DEFAULT_MEMORY_BYTES: Final = 256 * _MIB_BYTES

RecoveryMode = Literal["strict", "lenient"]


@attrs.frozen
class Tuning:
    """The memory that a store may use besides the interpreter's, its disk limit (None: unlimited), and its compression.

    Each of six write buffers takes a sixteenth of the memory, the block cache an eighth. Table files are not mapped
    into memory: compressed blocks are copied anyway, so reading them is no faster. Uncompressed ones would be read
    twice as fast, but mapped files count as memory of the process, up to the whole log.
    """

    memory: int = DEFAULT_MEMORY_BYTES
    disk: int | None = None
    compression: Compression = "lz4"
    max_ballast_bytes: int | None = None

    @property
    def ballast_bytes(self) -> int:
        """The maximum size of the ballast: opening writes the content of the write buffers into tables."""
        most = self.memory // 2 if self.max_ballast_bytes is None else self.max_ballast_bytes
        return most if self.disk is None else min(most, self.disk // 8)

    @property
    def table_bytes(self) -> int:
        """The target size of a table. The space of dropped messages is freed table by table."""
        return 64 * _MIB_BYTES if self.disk is None else max(4 * _MIB_BYTES, min(64 * _MIB_BYTES, self.disk // 16))

    @property
    def step_bytes(self) -> int:
        """The bytes of new messages between two checks of the disk limit."""
        return 0 if self.disk is None else min(512 * _MIB_BYTES, self.disk // 32)

    @property
    def budget_bytes(self) -> int | None:
        """The bytes of messages that may be kept.

        The rest is for the ballast, the write-ahead log and compactions, which rewrite tables before they remove the
        old ones: all tables of a small store, and a gigabyte of a large one.
        """
        if self.disk is None:
            return None
        tables = self.disk - 2 * self.wal_bytes - self.ballast_bytes
        return max(tables // 2 - self.step_bytes, tables - 4 * self.step_bytes - 1024 * _MIB_BYTES)

    @property
    def wal_bytes(self) -> int:
        """The size at which the write-ahead log is flushed to tables."""
        return 64 * _MIB_BYTES if self.disk is None else min(64 * _MIB_BYTES, self.disk // 8)

    def options(self) -> Options:
        """Return the options of the database and of small values."""
        options = _options(self, self.memory // 64)
        options.set_max_write_buffer_number(META_BUFFER_COUNT)
        return options

    def families(self, recovery: RecoveryMode) -> tuple[Options, dict[str, Options]]:
        """Return the options of the database and of each column family."""
        table, small = _tables(Cache(self.memory // 8))
        data = _options(self, self.memory // 16)
        data.set_max_write_buffer_number(DATA_BUFFER_COUNT)
        data.set_block_based_table_factory(table)
        meta = self.options()
        meta.set_block_based_table_factory(small)
        database = self.options()
        if recovery == "lenient":
            database.set_wal_recovery_mode(DBRecoveryMode.skip_any_corrupted_record())
        return database, {"data": data, "meta": meta}


def tuning_of(settings: RocksMQSettings) -> Tuning:
    """Return RocksDB's tuning for a store with these settings."""
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
    """Return the number of files that RocksDB may hold open. It is bounded, because each takes memory."""
    return _MAX_OPEN_FILES if limit == resource.RLIM_INFINITY else min(_MAX_OPEN_FILES, limit // 2)
