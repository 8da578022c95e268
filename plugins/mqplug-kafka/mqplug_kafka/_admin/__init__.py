"""Topics, groups and offsets, as administration and consumers need them."""
