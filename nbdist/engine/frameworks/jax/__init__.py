"""Support for JAX; imported only where the user wants it."""
