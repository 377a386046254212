"""What each framework needs of a start: a module each, found by its name; see `nbdist.launch.model.framework`."""
