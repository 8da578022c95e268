"""Runs cases, one by one or as items of pytest."""
