"""Ranges of messages, each read by one task, in batches and streams alike."""
