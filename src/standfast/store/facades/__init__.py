"""The store's verbs by noun."""
