"""The producer, and the delivery reports that settle its records."""
