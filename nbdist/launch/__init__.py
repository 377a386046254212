"""From what a person asks for to engines that answer."""
