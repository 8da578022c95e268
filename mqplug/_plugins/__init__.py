"""Plugins: discovery, checks, the hooks of one client, and its capabilities."""
