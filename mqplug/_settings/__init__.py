"""Settings classes, read from a mapping: strictly, with all complaints at once and without secrets."""
