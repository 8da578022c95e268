"""How messages, keys and notes are stored as bytes."""
