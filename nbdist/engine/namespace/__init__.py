"""Transfer of all that the user's names lead to, from a process that lives to one that replaces another."""
