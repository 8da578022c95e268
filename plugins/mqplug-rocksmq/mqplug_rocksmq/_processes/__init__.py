"""One store, used by many processes: its owner serves the others over a Unix socket."""
