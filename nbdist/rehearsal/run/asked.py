"""A rehearsal as its starter sees it: the pod asked for, the process's variables, its reports and its end.

The pods and meshes are read, and refused, before anything is started. The reports are read while the process goes
on.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.contract.program import Compiling, Program, from_line
from nbdist.errors import OptionError
from nbdist.notation import bytes_text
from nbdist.rehearsal.plan import libtpu
from nbdist.rehearsal.plan.libtpu import Libtpu
from nbdist.rehearsal.plan.mesh import (
    check_devices,
    check_slices,
    counting_hint,
    read_axes,
    read_topology,
    typed_text,
    with_rest,
)
from nbdist.spelling import option


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPod:
    """The pod of a rehearsal, and the mesh over it.

    Attributes:
      topology: Such as `v5e:16x16`.
      slices: The number of slices of this topology.
      mesh: Such as `data=16,model=16`; None for none.
    """

    topology: str
    slices: int
    mesh: str | None

    @property
    def label(self) -> str:
        """The mesh as `data=16,model=16`, which tells several meshes on one pod apart."""
        return self.mesh if self.mesh is not None else "no mesh"

    def __str__(self) -> str:
        """Return `v5e:16x16, mesh data=16,model=16`."""
        slices = f"{self.slices} slices of " if self.slices > 1 else ""
        mesh = f", mesh {self.mesh}" if self.mesh is not None else ""
        return f"{slices}{self.topology}{mesh}"


def read_each(topology: str, meshes: Sequence[str], *, slices: int = 1) -> tuple[AskedPod, ...]:
    """Return a pod with each of several meshes; without meshes, the pod alone.

    Raises:
      OptionError: As `read_asked`, or two meshes are the same.
    """
    pods = tuple(read_asked(topology, mesh, slices=slices) for mesh in meshes or (None,))
    for place, pod in enumerate(pods):
        if pod in pods[:place]:
            raise OptionError(
                f"{option('mesh', pod.mesh)} is given twice. Give each mesh that is to be compared once; nothing "
                "was started."
            )
    return pods


def read_asked(topology: str, mesh: str | None, *, slices: int = 1) -> AskedPod:
    """Return a pod from the text that a person typed.

    Raises:
      OptionError: There is no such topology, it names no chip, or the mesh does not take all its devices.
    """
    read = read_topology(topology, slices=slices)
    if read.chip is None:
        raise OptionError(
            f"{option('topology')} {topology} names no chip, and programs are compiled for one. Write "
            f"{option('topology', f'v5e:{topology}')}."
        )
    axes = None
    if mesh is not None:
        axes = with_rest(read_axes(mesh), read.devices)
        total = 1
        for size in axes.values():
            total *= size
        check_devices(axes, read.devices, str(read), counting_hint(read, total))
        check_slices(axes, slices)
    return AskedPod(
        topology=read.name, slices=slices, mesh=typed_text(axes) if axes is not None else None
    )


class ReportFile:
    """The file that a rehearsal's process writes; see `nbdist.contract.program`.

    Args:
      path: The file, which is made here, empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.programs: list[Program] = []
        self.compiling = ""
        """Name of the function that is being compiled; empty between two."""
        self._read = 0
        path.write_bytes(b"")

    def read(self) -> None:
        """Read what has come since; a line that is not complete waits."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode().splitlines():
            reported = from_line(line)
            if isinstance(reported, Compiling):
                self.compiling = reported.name
            else:
                self.compiling = ""
                self.programs.append(reported.program)


LOOKED_AT = 65536
"""Number of characters of the last output that are searched for the words for a lack of memory.

After these words come a hundred lines of how the compiler aborts.
"""

_NO_MEMORY = re.compile(r"Cannot allocate memory|mmap error: 12\b|bad_alloc")
"""Messages of libtpu, the C library and C++ about a lack of memory."""


def how_it_ended(code: int | None, said: str = "") -> str:
    """Return a sentence or two about how a process ended.

    Args:
      code: Its exit code; negative for a signal, None where it is not known.
      said: Its last output; empty where that went elsewhere.
    """
    if code == -signal.SIGKILL:
        return (
            f"The rehearsal's process was killed (signal 9): as a rule this machine, which has {_memory()}, had "
            f"not enough memory to compile. {_LESS}"
        )
    how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
    ended = f"The rehearsal's process ended {how}"
    if lacks_memory(code, said):
        return (
            f"{ended}: it was given no more memory to compile. This machine has {_memory()}; a limit may be lower "
            f"(ulimit -v). {_LESS}"
        )
    if code is not None and code < 0 and not said:
        return f"{ended}. Where its last words above speak of memory: this machine has {_memory()}. {_LESS}"
    return f"{ended}."


def lacks_memory(code: int | None, said: str) -> bool:
    """Return whether a process ended for want of memory; arguments as for `how_it_ended`."""
    aborted = code is not None and code < 0
    return code == -signal.SIGKILL or (aborted and _NO_MEMORY.search(said) is not None)


_LESS = "A smaller program, such as a scan over layers in place of a loop over them, needs less."


def _memory() -> str:
    return bytes_text(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def variables(environment: Mapping[str, str], found: Libtpu) -> dict[str, str]:
    """Return the environment variables of a rehearsal's process.

    Args:
      environment: The variables of this process.
      found: The library with the compiler.
    """
    # The pod is JAX's TPU there; values that are computed while a program is traced are computed on the CPU.
    platforms = {"JAX_PLATFORMS": "tpu,cpu"}
    # JAX cannot load what its own cache keeps for devices that are not there, and would warn each time.
    cache = {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    return {**environment, **libtpu.variables(found), **platforms, **cache}
