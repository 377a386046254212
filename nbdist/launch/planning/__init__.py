"""From what a person asked for to a plan; all bad input is refused here, before anything starts."""
