"""A run of the history check: its processes, its end and its verdict."""
