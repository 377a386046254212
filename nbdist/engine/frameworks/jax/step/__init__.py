"""Step: whether the collectives of this process still match those of the others."""
