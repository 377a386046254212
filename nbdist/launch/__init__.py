"""Launch of a session: from a person's request to engines that answer."""
