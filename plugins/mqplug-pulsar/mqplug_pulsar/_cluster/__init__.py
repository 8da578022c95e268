"""The connection to a cluster: the native client, the admin interface, and native errors."""
