"""The producer: one native producer for each partition."""
