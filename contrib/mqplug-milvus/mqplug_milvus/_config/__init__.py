"""Milvus' own configuration: its file and its environment variables."""
