"""Sessions that already run: nbdist's own, found again by id, or engines that somebody else has started."""
