"""Repair in place: a new back end under the same Python objects, with all that they refer to."""
