"""Real kernels and real engines."""
