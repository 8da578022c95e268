"""What verbs print: rows as a table, JSON or YAML, errors, questions, progress."""
