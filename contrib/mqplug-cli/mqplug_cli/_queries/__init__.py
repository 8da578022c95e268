"""What verbs ask of a client: counts, lags, and what a change would do."""
