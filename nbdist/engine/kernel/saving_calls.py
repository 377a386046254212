"""Handlers of the calls that save variables and restore them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdist.contract.calls import saving as contract
from nbdist.contract.calls.values import Named
from nbdist.engine.frameworks import imported
from nbdist.engine.kernel.together import together
from nbdist.engine.namespace.names import users
from nbdist.engine.saving.objects import Objects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbdist.engine.kernel.resident import Resident
    from nbdist.engine.saving.exchange import Exchange

    Buffers = Sequence[bytes | memoryview]


def save_arrays(
    resident: Resident, buffers: Buffers, call: contract.SaveArrays
) -> tuple[contract.Saving, list[Any]]:
    """Write variables into a folder, together with all other processes."""
    resident.framework.refuse_saving()
    # Imported here: it imports JAX.
    from nbdist.engine.saving.save import save

    with together(resident, call.number, "What was to be saved"):
        exchange = _exchange(resident, call)
        return save(
            call.path, call.names, _names(resident), Objects(imported()), exchange, resident.host
        ), []


def read_arrays(
    resident: Resident, buffers: Buffers, call: contract.ReadArrays
) -> tuple[contract.Saving, list[Any]]:
    """Read saved variables, together with all other processes, and set no name yet."""
    resident.framework.refuse_saving()
    from nbdist.engine.saving.restore import restore

    with together(resident, call.number, "What was to be restored"):
        exchange = _exchange(resident, call)
        report, held = restore(
            call.path, call.names, _names(resident), Objects(imported()), exchange, resident.host
        )
        resident.moving.begin(call.token, held)
    return report, []


def set_restored(
    resident: Resident, buffers: Buffers, call: contract.SetRestored
) -> tuple[Named, list[Any]]:
    """Give the variables that were read their names."""
    from nbdist.engine.saving.restore import Restored

    values = resident.moving.held(call.token, Restored).give(_names(resident))
    resident.shell.user_ns.update(values)
    resident.moving.end(call.token)
    return Named(names=tuple(values)), []


def _exchange(resident: Resident, call: contract.SaveArrays | contract.ReadArrays) -> Exchange:
    import jax

    from nbdist.engine.saving.exchange import Exchange

    return Exchange(
        resident.framework.store(),
        jax.process_index(),
        jax.process_count(),
        call.token,
        call.timeout_s,
    )


def _names(resident: Resident) -> dict[str, Any]:
    return users(resident.shell.user_ns, resident.shell.user_ns_hidden)
