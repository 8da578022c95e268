"""The consumer: the client library's readers and consumers for its partitions, and the messages that they receive."""
