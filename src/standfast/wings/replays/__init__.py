"""How a letter goes back to work: the same way whoever asks for it."""
