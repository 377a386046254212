"""The user's files on their way to every host."""
