"""What a pod that is not there would do: its topology, and what each of its devices would hold."""
