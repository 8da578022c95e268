"""The options that users give, parsed and checked before any request to a broker."""
