"""Writes of batches and streams: by stages, in transactions, or plainly, as the backend can."""
