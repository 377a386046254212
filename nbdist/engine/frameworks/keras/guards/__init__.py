"""Guards of Keras on several processes: calls that would wait for ever become errors before they begin."""

from nbdist.engine.frameworks.keras.guards.wrappers import guard, install, remove

__all__ = ["guard", "install", "remove"]
