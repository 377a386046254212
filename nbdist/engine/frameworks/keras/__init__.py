"""Keras 3 on the engines."""
