"""The traps of Keras on several processes become errors before anything waits."""

from nbdist.engine.frameworks.keras.guards.install import guard, install, remove

__all__ = ["guard", "install", "remove"]
