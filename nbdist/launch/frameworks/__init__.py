"""The launch side of each framework: a module each, found by its name; see `nbdist.launch.model.framework`."""
