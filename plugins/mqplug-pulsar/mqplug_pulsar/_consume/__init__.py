"""The consumer: native readers and consumers for its partitions, and the messages they receive."""
