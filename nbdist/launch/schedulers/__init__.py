"""Slurm and MPI: allocations, queues, and the commands that lead to their tasks."""
