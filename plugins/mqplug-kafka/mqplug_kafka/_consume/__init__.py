"""Consumers, with and without a group."""
