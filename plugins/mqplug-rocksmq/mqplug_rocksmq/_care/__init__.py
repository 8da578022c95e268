"""Care of a store: check, repair, backup, restore and statistics."""
