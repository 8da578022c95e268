"""Consumers, in a group and without one."""
