"""The vocabulary of mqplug: errors, ids, positions, messages and batches. Imports nothing of mqplug above it."""
