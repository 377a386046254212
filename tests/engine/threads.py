"""Calls on other threads."""

import threading


def elsewhere(call):
    """What `call` gives on another thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]
