"""The crash test: kills a program again and again while it uses a store, and compares the store with a model."""
