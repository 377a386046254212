"""All that the user's names lead to, on its way from a process that lives to one that takes another's place."""
