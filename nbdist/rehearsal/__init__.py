"""Pods that are not there: plans of arrays on them, programs compiled for them, and processes that do both."""
