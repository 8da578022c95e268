"""What cases are written with: the bench, the registry, child processes, wrong servers."""
