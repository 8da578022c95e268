"""Topics, subscriptions and positions, as administration and consumers need them."""
