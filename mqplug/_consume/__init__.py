"""Receiving: consumers, what they hold, and what became of each message."""
