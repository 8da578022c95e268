"""Arguments and options that several verbs share: which backend, durations, places in a log."""
