"""Streaming reads: planned batch by batch, in one process that lives as long as the query."""
