"""Who may do what: the vocabulary that every door checks rights with."""
