"""Moving values between the notebook and the processes of a running session."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from nbdist.errors import ArrayError
from nbdist.quantities import bytes_text
from nbdist.transfer import LARGE_BYTES, Assembly, pack

PUSH_SECONDS = 120.0
"""How long idle processes may take to receive what is pushed."""


class Asks(Protocol):
    """Sends a request to one process; see `nbdist.launch.calling.ask`."""

    def __call__(self, process_id: int, name: str, *buffers: bytes, **arguments: Any) -> Any:
        """Does not wait; `.get(timeout_s)` of what it returns does."""


def push(ask: Asks, targets: Sequence[int], values: Mapping[str, Any]) -> None:
    """Puts values into the namespaces of the targets, under their names.

    Raises:
      ArrayError: A value that cannot be pickled; nothing has been sent.
    """
    entries, buffers = pack(values)
    asked = [ask(process_id, "set_names", *buffers, names=entries) for process_id in targets]
    for request in asked:
        request.get(PUSH_SECONDS)


def pull(
    ask: Asks,
    targets: Sequence[int],
    expression: str,
    *,
    framework: str,
    limit_bytes: int = LARGE_BYTES,
    confirm: Callable[[str], bool] | None = None,
) -> Any:
    """Brings one value here; see `nbdist.session.Session.pull`."""

    def get(process_id: int) -> tuple[dict[str, Any], Sequence[Any]]:
        request = ask(
            process_id,
            "get_value",
            expression=expression,
            framework=framework,
            limit_bytes=limit_bytes,
        )
        described, buffers = request.get()
        return described, buffers

    described, buffers = get(targets[0])
    if described["kind"] == "too_large":
        _confirm(described["nbytes"], expression, limit_bytes, confirm)
        larger = described["nbytes"]
        return pull(ask, targets, expression, framework=framework, limit_bytes=larger)
    if described["kind"] == "pickle":
        # Only ever from engines that hold this session's key.
        return pickle.loads(buffers[0])
    assembly = Assembly(described, expression)
    assembly.add(described["pieces"], buffers)
    if not described["whole"]:
        for process_id in targets[1:]:
            more, buffers = get(process_id)
            assembly.add(more["pieces"], buffers)
    return assembly.whole()


def _confirm(
    nbytes: int, expression: str, limit_bytes: int, confirm: Callable[[str], bool] | None
) -> None:
    size = bytes_text(nbytes)
    question = f"{expression!r} is {size} in whole. Bring it into this notebook?"
    if confirm is None or not confirm(question):
        raise ArrayError(
            f"{expression!r} is {size} in whole, more than {bytes_text(limit_bytes)}: not pulled. Say "
            "--yes (limit_bytes in Python) to pull it all the same, or pull a part of it."
        )
