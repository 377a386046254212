"""The program that runs once a host: it starts the processes there, watches them, and keeps the user's files."""
