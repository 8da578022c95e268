"""Producers and transactions, and the delivery reports that settle their records."""
