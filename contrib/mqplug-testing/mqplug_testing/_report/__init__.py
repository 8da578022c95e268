"""The results of the cases: collected, shown in the terminal, and written as JSON or as a Markdown table."""
