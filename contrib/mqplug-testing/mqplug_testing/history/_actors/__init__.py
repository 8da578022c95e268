"""The actors of a history run: producers, members, readers, an administrator, and faults."""
