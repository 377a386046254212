"""What nbdist knows of TensorFlow."""
