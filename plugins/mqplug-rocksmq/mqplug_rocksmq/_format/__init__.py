"""The stored format: pages, keys, small values and notes as bytes."""
