"""The import of what all engines of a host need, before they are forked."""

from __future__ import annotations

import gc
import importlib
import traceback
from collections.abc import Sequence

from nbdist.contract.events import ImportFailed


def preload(modules: Sequence[str]) -> ImportFailed | None:
    """Import modules; return None, or the event that says which module could not be imported."""
    # Imports make many objects and little garbage: without collections they take a sixth less time.
    gc.disable()
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - whatever a package raises becomes an event
            return ImportFailed(
                module=module,
                error=f"{type(error).__name__}: {error}",
                trace=traceback.format_exc(),
            )
    # Objects made so far stay: no collection in a child need look at them, and so copy their memory.
    gc.freeze()
    gc.enable()
    return None
