"""General tools: deadlines, bells, forks, outages, and closing once."""
