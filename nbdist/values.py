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


class Gets(Protocol):
    """Asks processes for what they offer of a value."""

    def __call__(
        self, process_ids: Sequence[int], limit_bytes: int
    ) -> Mapping[int, tuple[dict[str, Any], Sequence[Any]]]:
        """One description with its buffers a process; arrays larger in whole are described only."""


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
    get: Gets,
    targets: Sequence[int],
    expression: str,
    *,
    together: bool,
    limit_bytes: int = LARGE_BYTES,
    confirm: Callable[[str], bool] | None = None,
) -> Any:
    """Brings one value here; see `nbdist.session.Session.pull`.

    Args:
      get: Answers what processes offer of the value, up to a number of bytes in whole.
      targets: Whose parts are wanted.
      expression: Names the value in error texts.
      together: Whether all must be asked at the same time, since the value is computed.
      limit_bytes: Larger arrays are asked about.
      confirm: Asked with a sentence before a larger array is sent.
    """
    found = get(targets if together else targets[:1], limit_bytes)
    described, buffers = found[targets[0]]
    if described["kind"] == "too_large":
        _confirm(described["nbytes"], expression, limit_bytes, confirm)
        larger = described["nbytes"]
        return pull(get, targets, expression, together=together, limit_bytes=larger)
    if described["kind"] == "pickle":
        # Only ever from engines that hold this session's key.
        return pickle.loads(buffers[0])
    assembly = Assembly(described, expression)
    assembly.add(described["pieces"], buffers)
    if not described["whole"]:
        more = found if together else get(targets[1:], limit_bytes)
        for process_id in targets[1:]:
            described, buffers = more[process_id]
            assembly.add(described["pieces"], buffers)
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
