"""What is there on a process: devices, meshes, named arrays, models; and the thread that reports it."""
