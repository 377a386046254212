"""Timings, each against something measured in the same run; printed by `make bench`."""
