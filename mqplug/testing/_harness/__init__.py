"""How the kit reaches a backend: the harness, and the servers and proxies that it controls."""
