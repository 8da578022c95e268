"""The connection to a cluster: admin requests, coordinators, the shared producer, and client errors."""
