"""What all doors share: the table of verbs, and filters."""
