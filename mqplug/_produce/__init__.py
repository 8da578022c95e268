"""Sending: producers, their queues, and the records on their way."""
