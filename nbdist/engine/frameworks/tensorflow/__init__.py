"""TensorFlow on the engines."""
