"""What everything speaks of: errors, ids, positions, messages and batches. Imports nothing of mqplug above it."""
