"""The crash harness: a program is killed again and again while it uses a store, and a model says what must be left."""
