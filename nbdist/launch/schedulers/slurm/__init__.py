"""Slurm: one `srun` starts an agent for one process in each task."""
