"""The store: topics, their logs, positions of groups, retention and ingestion."""
