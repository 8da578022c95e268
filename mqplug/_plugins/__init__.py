"""Plugins: found, checked, plugged together, and called."""
