"""Which backend, with which settings: what files, the environment and callers say."""
