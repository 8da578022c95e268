"""Batch reads: planned once, at the driver."""
