"""Messages on their way through a pipe: how they are read from standard input, and how they are written."""
