"""JAX, as far as it is asked anything; imported only where the user wants it."""
