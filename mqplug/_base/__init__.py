"""General tools: deadlines, bells, forks, and closing once."""
