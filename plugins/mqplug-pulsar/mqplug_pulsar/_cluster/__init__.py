"""The connection to a cluster: the client library's client and its calls, the admin interface, and errors."""
