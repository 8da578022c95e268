"""What a history is made of: events, how they are recorded, and the file that keeps them."""
