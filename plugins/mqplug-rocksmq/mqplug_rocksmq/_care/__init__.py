"""The care of a store: what it holds, whether it is sound, and what can be done if it is not."""
