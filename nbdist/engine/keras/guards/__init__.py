"""The traps of Keras on several processes become errors before anything waits."""

from nbdist.engine.keras.guards.install import guard, install, remove

__all__ = ["guard", "install", "remove"]
