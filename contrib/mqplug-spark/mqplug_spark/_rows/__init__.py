"""Messages as rows of Spark."""
