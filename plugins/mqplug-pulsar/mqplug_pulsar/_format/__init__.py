"""Message ids, keys, headers, notes and topic names, between mqplug's form and Pulsar's. Imports no client library."""
