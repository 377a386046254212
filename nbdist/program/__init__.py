"""Reads what a compiled program needs and sends, from the text, the memory and the costs that XLA gives for it.

A process of a session and a rehearsal read their programs with the same code, so it imports no framework.
"""
