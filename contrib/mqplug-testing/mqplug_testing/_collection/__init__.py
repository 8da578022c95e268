"""Collects cases as tests of pytest."""
