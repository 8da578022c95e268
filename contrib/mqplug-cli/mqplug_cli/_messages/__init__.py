"""Messages in pipes: reading them from standard input, and writing them to standard output."""
