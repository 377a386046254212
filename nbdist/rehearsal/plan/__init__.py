"""Plans for a pod that is not there: its topology, and what each of its devices would hold."""
