"""Hosts for the tests, made of Linux namespaces on this machine, and the schedulers that run on them."""
