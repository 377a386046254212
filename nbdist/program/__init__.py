"""What a compiled program needs and sends, read out of the text, the memory and the costs that XLA gives of it.

A process of a session and a rehearsal read their programs with it alike: it imports no framework.
Source: imports nothing outside the standard library.
"""
