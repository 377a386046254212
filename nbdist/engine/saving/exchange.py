"""Short texts between the processes of a save: all processes know what one finds before the next step."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from nbdist import errors
from nbdist.engine.cell.code_owners import error_text
from nbdist.errors import NbdistError, SessionError
from nbdist.notation import processes_text, seconds_text
from nbdist.spelling import option

POLL_SECONDS = 0.01


class Exchange:
    """An exchange through the store of the framework's coordinator, without any device.

    Every wait can be interrupted and has a limit.

    Args:
      store: See `nbdist.engine.frameworks.framework.Framework.store`.
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
          find: Called here for this process's result; what it raises, all processes raise.

        Raises:
          NbdistError: The error of the first process that failed.
          SessionError: Not all processes came to this step in time.
        """
        raised: NbdistError | None = None
        try:
            said = {"found": find()}
        except NbdistError as error:
            raised, said = error, {"type": type(error).__name__, "text": str(error)}
        except Exception as error:  # noqa: BLE001 - the others wait for a word of it
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
