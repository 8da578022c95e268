"""Clients of the backends, in the processes of Spark."""
