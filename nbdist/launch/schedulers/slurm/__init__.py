"""Slurm: one `srun` starts a parent of one process in each task."""
