"""Who may do what: the words that every door asks with."""
