"""Sending: producers, and what is on its way."""
