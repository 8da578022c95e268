"""One open RocksDB: its files, its lock, its tuning, and when a write is safe."""
