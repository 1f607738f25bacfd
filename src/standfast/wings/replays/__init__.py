"""How a letter goes back to work: in the same way for every caller."""
