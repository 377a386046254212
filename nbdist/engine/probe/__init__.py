"""The thread that reports the devices, meshes, named arrays and models of a process, and how it finds them."""
