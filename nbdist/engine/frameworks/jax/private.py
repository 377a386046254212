"""Private API of JAX, jaxlib and Flax that nbdist uses: each name once, why, and what happens without it.

For a new release of JAX this is the file to look at. Read and used in jax and jaxlib 0.10.0 to 0.12.0.1 and Flax
0.12. Names are looked up among the modules that have been imported; none is imported for it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection
from typing import Any

from nbdist.engine.frameworks.hooks import PrivateName

# The process's place in a cluster (`process_id`, `num_processes`), and its connection to the service, `client`.
# The public `jax.process_index()` starts a back end, and JAX offers no public way to exchange a text without a
# device computation; Orbax uses the client as well. A client that has failed refuses to be shut down, and JAX
# keeps it. Without the name a process counts as in no cluster, calls are not compared, only the report on a stuck
# cell is left, JAX refuses to join another service after a failed one, and libraries that keep the client cannot
# save after a repair.
GLOBAL_STATE = PrivateName("jax._src.distributed", "global_state")

# Makes the client of a service, with the options `shutdown_on_destruction` and `missed_heartbeat_callback`. JAX
# does not pass them on. Without them a process ends if the others do not come, and waits for its service when it
# leaves one that has ended.
MAKE_CLIENT = PrivateName("jaxlib._jax", "get_distributed_runtime_client")

# Makes gloo, which carries CPU collectives; it takes a `hostname`, which JAX does not pass on.
# Without it gloo binds the address to which this machine's host name resolves.
MAKE_GLOO = PrivateName("jaxlib._jax", "make_gloo_tcp_collectives")

# The client of the default back end; None while none is up.
# While a back end starts, which may take minutes on many hosts, JAX holds a lock. Every public function takes it,
# and starts a back end if none is up. Without the name no devices or arrays are shown.
DEFAULT_BACKEND = PrivateName("jax._src.xla_bridge", "_default_backend")

# The back ends that are up, by platform; the public functions start them. Without it only one is known.
LIVE_BACKENDS = PrivateName("jax._src.xla_bridge", "_backends")

# Starts the back ends; every public function that needs a back end calls it. Without it no thread waits while a
# back end is made anew, and a repair fails if a thread computes meanwhile.
BACKENDS = PrivateName("jax._src.xla_bridge", "backends")

# Clears the back ends; the public function of `jax.extend.backend`, whose import takes 0.3 s, calls it.
# Without it a cell can clear the back ends, and each cell after it has an error.
CLEAR_BACKENDS = PrivateName("jax._src.xla_bridge", "_clear_backends")

# Returns the mesh of `jax.set_mesh` on this thread; the public `get_mesh` raises while a function is traced.
# Without it there is no mesh in context.
CONCRETE_MESH = PrivateName("jax._src.mesh", "get_concrete_mesh")

# Has the mesh of the deprecated `with mesh:` as `env.physical_mesh`; an assignment to `env` sets it.
# With a hook around `Mesh.__enter__`, its deprecation warning would not point to the user's line. Without the name
# such a mesh is not seen.
THREAD_RESOURCES = PrivateName("jax._src.mesh", "thread_resources")

# The functions of registered pytrees, by class: JAX does not list them. For a dataclass, and for a class
# registered with keys, the closure of the flatten function has the arguments of the registration. The public ways
# to ask whether a class is registered flatten an object, which runs its author's code. Without the registry
# pytrees count as plain objects, and none are brought to a new process.
PYTREES = PrivateName("jax._src.tree_util", "_registry")

# Keeps `jax.debug.print` and similar effects in order; `jax.effects_barrier` waits for it.
# Without it a repair waits for the tokens as well, and reports their error.
RUNTIME_TOKENS = PrivateName("jax._src.dispatch", "runtime_tokens")

# Class that can express every sharding, from `hlo_parts`. Without it an array of such a sharding is lost.
GSPMD_SHARDING = PrivateName("jax._src.sharding_impls", "GSPMDSharding")

# Makes an array that is weakly typed or not committed to its devices; the public function makes no such array. A
# scalar could then no longer be used with arrays on other devices. Without it the public function's array is
# used.
ARRAY_IMPL = PrivateName("jax._src.array", "ArrayImpl")

# The hook through which JAX itself checks for NaN after each call in C++: JAX has no event for an execution.
# Without it, or without `EXECUTE`, the session compares processes by a collective alone.
POST_HOOK_STATE = PrivateName("jax._src.api", "_post_hook_state")

# Class whose `__call__` runs the programs that do not run in a call in C++; see `POST_HOOK_STATE`.
EXECUTE = PrivateName("jax._src.interpreters.pxla", "ExecuteReplicated")

# NumPy, as `process_allgather` uses it: there is no other place between its collective and the conversion.
# Without it a process whose peers do not come to such a collective is stuck.
NUMPY = PrivateName("jax.experimental.multihost_utils", "np")

# The functions with which Flax saves and restores a class, by class. Without it none are brought.
STATE_DICTS = PrivateName("flax.serialization", "_STATE_DICT_REGISTRY")


def coordinator_client() -> Any | None:
    """Return JAX's connection to its coordinator; None if there is none or it has no key-value methods.

    In the coordinator's key-value store processes exchange short texts without any device; see `GLOBAL_STATE`.
    """
    return client_with("key_value_set", "key_value_dir_get")


def client_with(*methods: str) -> Any | None:
    """Return the client of the service that this process has joined; None if it has none with these methods."""
    client = getattr(GLOBAL_STATE.get(), "client", None)
    return client if client is not None and all(hasattr(client, n) for n in methods) else None


def base_array(array: Any) -> Any:
    """Return the array that a typed PRNG key holds; any other array itself.

    Without `PRNGKeyArray._base_array` a key whose pieces do not belong together is reported as lost, but keeps
    its values.
    """
    return getattr(array, "_base_array", array)


def on_deleted(error_for: Callable[[Any], Exception | None]) -> bool:
    """Make the use of a deleted array raise another error than JAX's, which has neither a name nor a reason.

    `ArrayImpl._check_if_deleted` raises it, also where a compiled function is called. Without the name JAX's own
    error stays.

    Args:
      error_for: Returns the error for a deleted array; None for JAX's own.

    Returns:
      Whether the method is there.
    """
    kind = ARRAY_IMPL.get()
    check = getattr(kind, "_check_if_deleted", None)
    if check is None:
        return False
    # Not `__wrapped__`: JAX may have decorated the method itself.
    original = getattr(check, "nbdist_replaces", check)

    @functools.wraps(original)
    def checked(array: Any) -> None:
        try:
            original(array)
        except RuntimeError:
            error = error_for(array)
            if error is None:
                raise
            raise error from None

    checked.nbdist_replaces = original  # type: ignore[attr-defined]
    kind._check_if_deleted = checked  # type: ignore[union-attr]
    return True


def is_committed(array: Any) -> bool:
    """Return whether an array is committed to its devices; True if it has no attribute `_committed`."""
    return bool(getattr(array, "_committed", True))


def hlo_parts(sharding: Any) -> tuple[Collection[Any], Any] | None:
    """Return the devices and the HLO of a sharding that XLA has chosen; None if it lacks one of the two."""
    devices = getattr(sharding, "_device_assignment", None)
    hlo = getattr(sharding, "_hlo_sharding", None)
    return None if devices is None or hlo is None else (devices, hlo)


def frozen_items(frozen: Any) -> dict[Any, Any]:
    """Return the dictionary of a Linen `FrozenDict`; empty without its slot `_dict`.

    The public ways copy the whole tree or call `__getitem__` for each key.
    """
    slot = getattr(sys.modules["flax.core"].FrozenDict, "_dict", None)
    found: dict[Any, Any] = slot.__get__(frozen) if slot is not None else {}
    return found


def compiled_function() -> tuple[Any | None, Any]:
    """Return the function that JAX is calling for the first time with such arguments, and its arguments.

    Read from the frame of `jax._src.pjit`'s `cache_miss`, with its variables `fun`, `args` and `kwargs`. Without
    it two functions that swap places are not told apart in their first calls, and programs that are different
    after a repair are not noticed.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "cache_miss":
            names = frame.f_locals
            return names.get("fun"), (names.get("args"), names.get("kwargs"))
        frame = frame.f_back  # type: ignore[assignment]
    return None, None
