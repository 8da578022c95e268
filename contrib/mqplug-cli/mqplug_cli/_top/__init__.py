"""``mqplug top``: what a backend holds and does, live, and changes to it. Needs textual."""
