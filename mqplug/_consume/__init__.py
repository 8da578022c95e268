"""Receiving: consumers, their assignment, and the acks of each message."""
