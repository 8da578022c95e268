"""The harness of a backend, and the servers and proxies that it controls."""
