"""The sources of settings: calls, URLs, environment variables, files, and Milvus' own configuration."""
