"""Running one cell on many processes: sending it, watching it, ending it."""
