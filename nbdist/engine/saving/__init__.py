"""Variables written by shard, by all processes together, and read again by as many processes or another number."""
