"""The tools of the cases: the bench, the registry, processes, extensions, wrong servers."""
