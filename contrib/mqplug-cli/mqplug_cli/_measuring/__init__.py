"""The work of ``bench`` and ``verify``: timing a backend, and reading topics to compare them."""
