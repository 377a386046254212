"""Private API of a library stands in one module for it, which says why, and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbdist

PACKAGE = Path(nbdist.__file__).parent
JAX, KERAS = ("engine/frameworks/jax/private.py", "engine/frameworks/keras/private.py")
IPYTHON = "ipython_private.py"
HOSTS_IPYPARALLEL, KERNELS_IPYPARALLEL = ("agent/programs.py", "launch/start/client.py")

PRIVATE = [
    (
        r"\b(jax\._src|jaxlib\._\w+|flax\.\w+\._\w+)\b|^(_base_array|_committed|_hlo_sharding)$",
        {
            JAX,
            "agent/coordination.py",  # a process without the engine
            "rehearsal/devices.py",  # tried by `check_jax` before a rehearsal begins
            "engine/namespace/modules.py",  # a name to compare with, nothing is read from it
        },
    ),
    (
        r"\bkeras\.src\b|^_(value|trainable|layout|layout_map|jax_state|device_mesh|path)$",
        {
            KERAS,
            "keras/checkpoint.py",  # called by users, without the engine
            "engine/frameworks/tensorflow/start.py",  # the trainer of Keras' TensorFlow back end
        },
    ),
    (
        r"^(shell_channel_thread|_supports_kernel_subshells|_showtraceback|_shutdown_message|_reloader"
        r"|_format_exception_for_storage|_last_traceback_during_displayhook)$",
        {IPYTHON},
    ),
    (
        # Of hosts: methods of the controller, an engine and its nanny; of a kernel: of its client.
        r"^(def )?(handle_pong|notify_exit|init_hub|start_nanny|_dispatch_iopub|_extract_metadata|_futures)$"
        r"|^_socket$",
        {HOSTS_IPYPARALLEL, KERNELS_IPYPARALLEL},
    ),
]
"""What names a private part of a library, and the modules that may."""


def used(source: str) -> Iterator[str]:
    """Yield the names in a module's code: imports, attributes of others, and texts that are no docstrings."""
    tree = ast.parse(source)
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=module, names=names):
                yield from (f"{module}.{one.name}" for one in names)
            case ast.Attribute(attr=attr, value=ast.Name(id=name)) if name not in ("self", "cls"):
                yield attr
            case ast.Constant(value=str(text)) if id(node) not in said:
                yield text
            case ast.FunctionDef(name=name):
                yield f"def {name}"


@pytest.mark.parametrize(
    ("pattern", "places"), PRIVATE, ids=["jax", "keras", "ipython", "ipyparallel"]
)
def test_private_names_of_a_library_stand_in_its_own_module(pattern: str, places: set[str]) -> None:
    rooms = [PACKAGE / room for room in ("engine", "agent", "keras", "launch", "session")]
    modules = [path for room in rooms for path in room.rglob("*.py")]
    modules += [*PACKAGE.glob("*.py"), *(PACKAGE / p for p in places if p.startswith("rehearsal"))]
    named = {
        str(path.relative_to(PACKAGE))
        for path in modules
        if any(re.search(pattern, name) for name in used(path.read_text()))
    }
    assert named == places


def test_a_private_name_is_seen_wherever_it_stands() -> None:
    pattern, _ = PRIVATE[0]
    for line in ("from jax._src import mesh", "x = k._base_array", "getattr(k, '_base_array')"):
        assert any(re.search(pattern, name) for name in used(line)), line
    assert not any(re.search(pattern, n) for n in used('"""See jax._src."""\nself._committed = 1'))
