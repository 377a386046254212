"""What a process knows and uses of the machine it runs on, be it a notebook's, an agent or an engine."""
