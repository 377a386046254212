"""Writes the golden snapshots: `python tests/golden/make.py [FOLDER]`.

Each file is `{"snapshot": …, "expected": […], "trees": […]}`. `expected` has one entry for each array of the
snapshot, in the same order:

- `slices`: what JAX says each device holds, `{device key: [[start, stop], …]}`; where the axes do not divide a
  dimension, what XLA makes of it (`World.named`);
- `partial`: true where the array has unreduced axes; its slices are then those of the same spec
  without them, since JAX refuses to give them;
- `pieces`: the devices that hold the very same piece, `[{slices, addend, devices}]`, ordered by
  slices, then addend. `addend` is the place along the unreduced axes, row-major, else null.
  Arrays that each process has for itself have one piece a device.

`exchanges`, of compiled programs: with whom each device exchanges data, `[{device key: [device key, …]}, …]`, one
for each collective, in the order of their ids; see `compiled.py`.

`trees` are the arrays as the trees that their paths make, one for each name: see `nbdist.view.tree`.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import jax

DEVICES = 256


def cases(module: ModuleType) -> list[Callable[[], dict]]:
    """The functions of a module that make a golden file each, which has their name."""
    return [
        make
        for name, make in inspect.getmembers(module, inspect.isfunction)
        if make.__module__ == module.__name__
        and not name.startswith("_")
        and not inspect.signature(make).parameters
    ]


def text(value: object, depth: int = 0) -> str:
    """JSON with a line for each process, device, mesh, array and piece."""
    if depth == 3 or not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    indent = "\n" + " " * (depth + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {text(entry, depth + 1)}" for key, entry in value.items()]
    else:
        items = [text(entry, depth + 1) for entry in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + indent + f",{indent}".join(items) + "\n" + " " * depth + closing


def main() -> None:
    """Writes every case to the folder named on the command line, or to this one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", DEVICES)
    # The modules build meshes, so they may only be imported once the devices are there.
    import compiled
    import frameworks
    import layouts
    import sessions
    import trees

    from nbdist.contract.wire import encode

    for module in (layouts, sessions, trees, frameworks, compiled):
        for make in cases(module):
            case = make()
            snapshot = case["snapshot"]
            meshes = {mesh.id: mesh for mesh in snapshot.meshes}
            content = {
                "snapshot": encode(snapshot),
                "expected": case["expected"],
                "trees": trees.trees(snapshot.arrays, meshes),
            }
            if "exchanges" in case:
                content["exchanges"] = case["exchanges"]
            plain = json.loads(json.dumps(content))
            (folder / f"{make.__name__}.json").write_text(text(plain) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
