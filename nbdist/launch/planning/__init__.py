"""Planning: from a person's options to a plan; all bad input is refused here, before anything starts."""
