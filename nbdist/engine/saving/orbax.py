"""Arrays written and read with Orbax, by all processes together: the one module that imports it."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from nbdist.engine.cell.code_owners import error_text
from nbdist.engine.saving.exchange import Exchange
from nbdist.errors import SessionError
from nbdist.notation import seconds_text
from nbdist.spelling import option

POLL_SECONDS = 0.05

T = TypeVar("T")


def refuse_without() -> None:
    """Raise an error if Orbax is not installed.

    Raises:
      SessionError: Orbax is not installed; says what to type.
    """
    if importlib.util.find_spec("orbax") is None or not importlib.util.find_spec(
        "orbax.checkpoint"
    ):
        raise SessionError(
            "Variables are saved with Orbax, which is not installed here: pip install 'nbdist[save]' on all "
            "hosts. Nothing was changed."
        )


def write(folder: Path, arrays: Mapping[str, Any], exchange: Exchange) -> None:
    """Write arrays: each process its shards, process 0 alone NumPy arrays.

    Args:
      folder: A new one.
      arrays: The same on all processes.
      exchange: Holds the time that is left.
    """
    import orbax.checkpoint as ocp

    with _checkpointer(exchange) as checkpointer:
        _on_a_thread(
            lambda: checkpointer.save(folder, args=ocp.args.PyTreeSave(dict(arrays))), exchange
        )


def read(
    folder: Path, shardings: Mapping[str, Any], dtypes: Mapping[str, Any], exchange: Exchange
) -> dict[str, Any]:
    """Read arrays, each process the parts that it needs.

    Args:
      folder: The folder that `write` has written.
      shardings: For each array the sharding to read it with; None: as a NumPy array on every process.
      dtypes: For each array its dtype.
      exchange: Holds the time that is left.
    """
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    arguments = {
        name: ocp.RestoreArgs(restore_type=np.ndarray, dtype=dtypes[name])
        if sharding is None
        else ocp.ArrayRestoreArgs(restore_type=jax.Array, sharding=sharding, dtype=dtypes[name])
        for name, sharding in shardings.items()
    }
    asked = ocp.args.PyTreeRestore(
        dict.fromkeys(arguments, 0), restore_args=arguments, partial_restore=True
    )
    with _checkpointer(exchange) as checkpointer:
        found: dict[str, Any] = _on_a_thread(
            lambda: checkpointer.restore(folder, args=asked), exchange
        )
    return found


def _checkpointer(exchange: Exchange) -> Any:
    """Return a checkpointer that meets other processes at the coordinator; by default it would use devices."""
    import orbax.checkpoint as ocp

    options = ocp.options.MultiprocessingOptions(
        primary_host=0,
        active_processes=set(range(exchange.count)),
        barrier_sync_key_prefix=exchange.token,
    )
    handler = ocp.PyTreeCheckpointHandler(multiprocessing_options=options)
    return ocp.Checkpointer(handler, multiprocessing_options=options)


def _on_a_thread(work: Callable[[], T], exchange: Exchange) -> T:
    """Run work on a thread and return its result: Orbax waits for other processes where no interrupt reaches it.

    An interrupt leaves the thread behind: its wait ends at Orbax's limit of 300 s, with an error that nobody
    reads, and what it has written is in a folder that no save names.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="nbdist-orbax", daemon=True).start()
    while not ended.wait(POLL_SECONDS):
        if not exchange.left_s():
            raise SessionError(
                f"Process {exchange.process_id} was not ready in time: the file system is slow, or another "
                f"process did not come. Allow more than {seconds_text(exchange.timeout_s)} with "
                f"{option('timeout_s')}."
            )
    if errors:
        raise SessionError(
            f"Orbax has failed on process {exchange.process_id}: {error_text(errors[0])}"
        ) from errors[0]
    return results[0]
