"""What every door shares, and no door owns: the table of verbs, and filters."""
