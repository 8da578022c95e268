"""``mqplug top``: a live view of a backend, with changes to it. Needs textual."""
