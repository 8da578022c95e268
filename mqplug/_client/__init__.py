"""The client: connects, opens producers and consumers, manages topics and groups, answers queries."""
