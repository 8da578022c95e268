"""Batch and streaming writes: staged, in transactions, or plain, depending on the backend."""
