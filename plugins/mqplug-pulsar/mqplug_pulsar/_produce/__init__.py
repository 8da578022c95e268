"""The producer: one producer of the client library for each partition."""
