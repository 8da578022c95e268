"""The parts of a history: its events, their recorder, and the file that keeps them."""
