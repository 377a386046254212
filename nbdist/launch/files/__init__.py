"""Transfer of the user's files to every host."""
