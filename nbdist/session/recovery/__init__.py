"""Going on after a failure: proven to be in step, repaired in place, or made anew."""
