"""What ``bench`` and ``verify`` do: time a backend, and read topics to compare them."""
