"""Small tools without a domain: deadlines, forks, closing in order, background threads, outage logs."""
