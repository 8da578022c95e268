"""The vocabulary of mqplug: errors, ids, positions, messages and batches. Imports no higher layer of mqplug."""
