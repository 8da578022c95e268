"""Where settings come from: calls, URLs, environment variables, files, and Milvus' own configuration."""
