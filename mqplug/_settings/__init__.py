"""Reading settings classes from mappings: strictly, with all errors at once and without secrets."""
