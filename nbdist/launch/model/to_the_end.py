"""Calls that an interrupt does not end halfway."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable


def to_the_end(call: Callable[[], None]) -> None:
    """Run `call` on a thread, which no signal reaches: an interrupt ends the wait, not the call.

    The interpreter waits for that thread before it ends. If no thread can be started any more (at the end of a
    program), the call runs here.

    Raises:
      KeyboardInterrupt: The user's; the call goes on.
    """
    errors: list[Exception] = []

    def called() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - raised again where it was called
            errors.append(error)

    context = contextvars.copy_context()  # error texts use the syntax of the person's interface
    thread = threading.Thread(target=context.run, args=(called,), name="nbdist to the end")
    try:
        thread.start()
    except RuntimeError:  # "can't create new thread at interpreter shutdown"
        call()
        return
    thread.join()
    if errors:
        raise errors[0]
