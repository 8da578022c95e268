"""The consumer: readers and consumers of the client library for its partitions, and the messages they receive."""
