"""Check, repair, back up, restore and count a store."""
