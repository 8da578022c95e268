"""Topics, their logs, the groups that read them, and what is dropped."""
