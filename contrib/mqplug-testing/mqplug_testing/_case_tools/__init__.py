"""The tools of the cases: the bench, the registry, child processes, wrong servers."""
