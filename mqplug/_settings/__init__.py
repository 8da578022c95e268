"""Reads settings classes from mappings: strictly, with all complaints at once and without secrets."""
