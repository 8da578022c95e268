"""The messages in Milvus' topics: protocol buffers as typed events, columns and schemas."""
