"""Values on their way between an engine and the kernel: arrays in pieces as raw bytes, the rest pickled."""
