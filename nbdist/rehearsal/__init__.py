"""Rehearsals for pods that do not exist here: plans of arrays, compiled programs, and runs of cells and scripts.

Other packages import from here alone; the modules behind these names are imported on first use:

- `make_plan` returns an `ArrayPlan`: what each device of a pod would hold of a value, from its shapes and specs.
  `read_where` parses a description of the pod. No framework is imported, nothing is compiled.
- `pod_here` returns a `Pod`, for which this process compiles functions: `Program`s with what each device needs and
  what it sends. Nothing runs, and no device is taken.
- `Rehearsing` runs the cells of a notebook in processes of their own, whose devices are those of a pod;
  `rehearse_script` does so with a script. With several meshes the answer is a `Comparison`.
- `install` puts libtpu, which has the compiler, into a folder of its own. No TPU is needed.

The input is a topology and a mesh as a person writes them (`v5e:16x16`, `data=16,model=16`), and a value with its
specs, a function, a cell or a script. The output is plans and programs, each as plain data, text and picture. This
package does not use sessions, and sessions do not use it.

Read first `plan.py` for plans, `pod.py` for programs, and `runs.py` for scripts and cells (`cells.py`), which run
in a process of their own, `rehearsal.py`. Only there, and for `pod_here`, is JAX imported:
`rehearsal.py` replaces JAX's devices with those of the pod, `pod.py` decides what happens to each operation,
`values.py` defines the resulting arrays, and `programs.py` compiles programs and caches them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbdist.rehearsal.array_plan import ArrayPlan
    from nbdist.rehearsal.cells import Rehearsing
    from nbdist.rehearsal.comparison import Comparison
    from nbdist.rehearsal.libtpu import install
    from nbdist.rehearsal.plan import make_plan, read_where
    from nbdist.rehearsal.pod import Pod, pod_here
    from nbdist.rehearsal.runs import rehearse_script
    from nbdist.rehearsal.topology import Topology

__all__ = [
    "ArrayPlan",
    "Comparison",
    "Pod",
    "Rehearsing",
    "Topology",
    "install",
    "make_plan",
    "pod_here",
    "read_where",
    "rehearse_script",
]

_MODULES = {
    "cells": ("Rehearsing",),
    "comparison": ("Comparison",),
    "libtpu": ("install",),
    "array_plan": ("ArrayPlan",),
    "plan": ("make_plan", "read_where"),
    "pod": ("Pod", "pod_here"),
    "runs": ("rehearse_script",),
    "topology": ("Topology",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
