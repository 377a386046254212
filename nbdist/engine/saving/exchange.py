"""Steps of a save or restore that all processes take together: exchanges of texts, and arrays by Orbax."""

from __future__ import annotations

import importlib.util
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nbdist import errors
from nbdist.engine.saving.parts import SavedObjects
from nbdist.errors import NbdistError, SessionError, error_text
from nbdist.notation import processes_text, seconds_text
from nbdist.spelling import option

POLL_SECONDS = 0.01


class Exchange:
    """An exchange through the store of the framework's coordinator, without any device.

    Every wait can be interrupted and has a limit.

    Args:
      store: See `nbdist.engine.frameworks.Framework.store`.
      process_id: The number of this process.
      count: The number of all processes.
      token: Names this save or restore; different each time.
      timeout_s: How many seconds all steps together may take.

    Raises:
      SessionError: There is no store, and there are other processes.
    """

    def __init__(
        self, store: Any | None, process_id: int, count: int, token: str, timeout_s: float
    ) -> None:
        if store is None and count > 1:
            raise SessionError(
                "JAX's coordinator cannot be reached: without it the processes cannot write or read together. "
                "Nothing was changed."
            )
        self._store = store
        self.process_id = process_id
        self.count = count
        self.token = token
        self.timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Return how many seconds are left."""
        return max(0.0, self._deadline - time.monotonic())

    def all(self, step: str, find: Callable[[], Any]) -> list[Any]:
        """Return the result of each process, as plain data, in the order of the processes.

        Args:
          step: The name of the step, different for each.
          find: Called here for this process's result; if it raises an error, all processes raise that error.

        Raises:
          NbdistError: The error of the first process that failed.
          SessionError: Not all processes came to this step in time.
        """
        raised: NbdistError | None = None
        try:
            said = {"found": find()}
        except NbdistError as error:
            raised, said = error, {"type": type(error).__name__, "text": str(error)}
        except Exception as error:  # noqa: BLE001 - sent to the others, which wait for it
            text = f"process {self.process_id}: {error_text(error)}"
            raised, said = SessionError(text), {"type": "SessionError", "text": text}
        if self.count == 1:
            if raised is not None:
                raise raised
            return [said["found"]]
        for one in (come := self._of_all(step, said)):
            if "type" in one:
                kind = getattr(errors, one["type"], SessionError)
                raise kind(one["text"])
        return [one["found"] for one in come]

    def _of_all(self, step: str, said: dict[str, Any]) -> list[dict[str, Any]]:
        assert self._store is not None
        folder = f"nbdist/saving/{self.token}/{step}/"
        self._store.key_value_set(f"{folder}{self.process_id}", json.dumps(said))
        while True:
            found = {
                int(key.rpartition("/")[2]): text
                for key, text in self._store.key_value_dir_get(folder)
            }
            if len(found) == self.count:
                return [json.loads(found[p]) for p in range(self.count)]
            if not self.left_s():
                missing = [p for p in range(self.count) if p not in found]
                raise SessionError(
                    f"{processes_text(missing)} did not come to the step {step!r} within "
                    f"{seconds_text(self.timeout_s)}. Allow more with {option('timeout_s')}, or look whether the "
                    "file system answers there."
                )
            time.sleep(POLL_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTask:
    """This process's part in a save or a restore.

    Attributes:
      path: The folder, as a person has written it.
      names: The names of the variables. Empty: all that hold arrays on several processes; in a restore, all of the
        save.
      variables: The user's, by name.
      objects: Takes the arrays out of models, and puts them into models that are there.
      exchange: Exchanges texts with the other processes.
      host: The name of this host.
    """

    path: str
    names: tuple[str, ...]
    variables: Mapping[str, Any]
    objects: SavedObjects
    exchange: Exchange
    host: str


ORBAX_POLL_SECONDS = 0.05

T = TypeVar("T")


def refuse_without_orbax() -> None:
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


def write_arrays(folder: Path, arrays: Mapping[str, Any], exchange: Exchange) -> None:
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


def read_arrays(
    folder: Path, shardings: Mapping[str, Any], dtypes: Mapping[str, Any], exchange: Exchange
) -> dict[str, Any]:
    """Read arrays, each process the parts that it needs.

    Args:
      folder: The folder that `write_arrays` has written.
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
        except BaseException as error:  # noqa: BLE001 - raised again on the calling thread
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="nbdist-orbax", daemon=True).start()
    while not ended.wait(ORBAX_POLL_SECONDS):
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
