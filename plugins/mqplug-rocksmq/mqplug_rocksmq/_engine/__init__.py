"""One open RocksDB with its files, its lock and its durability."""
