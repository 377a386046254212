"""Sessions that already run: found again by their id, or engines that somebody else has started."""
