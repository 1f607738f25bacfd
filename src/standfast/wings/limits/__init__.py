"""What holds jobs back before they start: limits, rates, breakers, gates and probes."""
