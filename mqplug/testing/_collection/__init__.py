"""Cases as tests of pytest: which are collected, and how a plugin asks for them."""
