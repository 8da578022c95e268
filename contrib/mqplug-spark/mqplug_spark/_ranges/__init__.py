"""Ranges of messages: what one task reads, of a batch and of a stream alike."""
