"""The process of a rehearsal: JAX sees the devices of a pod, and a cell or a script compiles programs for it.

`begin` makes a kernel's process a rehearsal, and `cell_begins` is called before each of its cells; `main` runs a
script (`python -m nbdist.rehearsal.rehearsal`, started by `nbdist rehearse`). Programs are shown, or written to a
file as lines of JSON, as soon as they are compiled.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding

from nbdist.contract.page import PROGRAM_MIME_TYPE
from nbdist.contract.program import Compiled, Compiling, Program, Reported, to_line
from nbdist.contract.wire import encode
from nbdist.errors import NbdistError, RehearsalError
from nbdist.ipython_private import publish_error
from nbdist.machine.processes import die_with
from nbdist.rehearsal.devices import check_jax, describe, is_current, made_current, make_default
from nbdist.rehearsal.pod import Pod, RehearsalTrace
from nbdist.rehearsal.programs import PodProgram, Programs
from nbdist.rehearsal.topology import read_topology
from nbdist.rehearsal.values import DescribedArray, cut_to_users, user_line
from nbdist.view.program import program_text


class Replaced:
    """Replacements for public JAX functions that bypass the trace when they put values on devices.

    Args:
      trace: The rehearsal's trace.
    """

    def __init__(self, trace: RehearsalTrace) -> None:
        self._trace = trace

    def install(self) -> None:
        """Replace JAX's own functions; `jax.distributed.initialize` then connects nothing."""
        jax.make_array_from_callback = self.make_array_from_callback
        jax.make_array_from_process_local_data = self.make_array_from_process_local_data
        jax.make_array_from_single_device_arrays = self.make_array_from_single_device_arrays
        jax.distributed.initialize = self.initialize
        for place, name in (
            (jax, "set_mesh"),
            (jax.sharding, "set_mesh"),
            (jax.sharding, "get_mesh"),
        ):
            if hasattr(place, name):
                setattr(place, name, self._outside(getattr(place, name)))

    def make_array_from_callback(
        self,
        shape: Sequence[int],
        sharding: Any,
        data_callback: Callable[[Any], Any],
        dtype: Any = None,
    ) -> DescribedArray:
        """Make an array as JAX does; call the function only if the type is not given, and for one part only."""
        sharding = getattr(sharding, "sharding", sharding)
        if dtype is None:
            index = next(iter(sharding.addressable_devices_indices_map(tuple(shape)).values()))
            dtype = np.asarray(data_callback(index)).dtype
        return self._array(tuple(shape), dtype, sharding)

    def make_array_from_process_local_data(
        self, sharding: Any, local_data: Any, global_shape: Sequence[int] | None = None
    ) -> Any:
        """Make arrays as JAX does, from the first host's data."""
        sharding = getattr(sharding, "sharding", sharding)
        if isinstance(local_data, np.ndarray | jax.Array):
            shape = (
                global_shape
                if global_shape is not None
                else global_shape_of(sharding, local_data.shape)
            )
            return self._array(tuple(shape), local_data.dtype, sharding)
        return jax.tree.map(
            lambda leaf: self.make_array_from_process_local_data(sharding, np.asarray(leaf)),
            local_data,
        )

    def make_array_from_single_device_arrays(
        self, shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
    ) -> DescribedArray:
        """Make an array as JAX does."""
        return self._array(tuple(shape), dtype if dtype is not None else arrays[0].dtype, sharding)

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Connect nothing: one process rehearses for all."""

    def _outside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a version of `function` for use in a rehearsal: JAX refuses the original inside a trace."""

        @functools.wraps(function, updated=())
        def called(*args: Any, **kwargs: Any) -> Any:
            if not is_current(self._trace):
                return function(*args, **kwargs)
            with jax.core.eval_context():
                return function(*args, **kwargs)

        return called

    def _array(self, shape: tuple[int, ...], dtype: Any, sharding: Sharding) -> DescribedArray:
        self._trace.check_devices([sharding])
        sharding.shard_shape(shape)
        struct = jax.ShapeDtypeStruct(
            shape, jax.dtypes.canonicalize_dtype(dtype), sharding=sharding
        )
        return self._trace.described(jax.typeof(struct), sharding, source="the input")


def global_shape_of(sharding: Any, local: Sequence[int]) -> tuple[int, ...]:
    """Return the global shape of an array from the first host's part.

    Args:
      sharding: The sharding of the array; a `NamedSharding`.
      local: The shape of the part.

    Raises:
      RehearsalError: The sharding does not determine the global shape.
    """
    if not isinstance(sharding, NamedSharding):
        raise RehearsalError(
            f"The shape of an array with {sharding} does not follow from one host's part, in "
            f"{user_line()}: give global_shape."
        )
    count = sharding.mesh.size
    parts = tuple(count // size for size in sharding.shard_shape((count,) * len(local)))
    here = sharding.addressable_devices_indices_map(parts).values()
    shape = []
    for dimension, (size, cut) in enumerate(zip(local, parts, strict=True)):
        starts = {index[dimension].indices(cut)[:2] for index in here}
        shape.append(size * cut // len(starts))
    return tuple(shape)


class ProgramReport:
    """Report of one cell or script; it has each program once.

    Args:
      path: An existing file for the report; None for none.
      show: Called to show a program; None to show none.
    """

    def __init__(
        self, path: Path | None = None, show: Callable[[PodProgram], None] | None = None
    ) -> None:
        self._path = path
        self._show = show
        self._seen: set[int] = set()

    def begins(self, name: str) -> None:
        """Report that the compilation of a function begins."""
        self._write(Compiling(name=name))

    def compiled(self, program: PodProgram) -> None:
        """Report a program that has been compiled."""
        if not self.first(program):
            return
        self._write(Compiled(program=program))
        if self._show is not None:
            self._show(program)

    def first(self, program: Program) -> bool:
        """Return whether this is the first call with a program; later calls return false."""
        if id(program) in self._seen:
            return False
        self._seen.add(id(program))
        return True

    def _write(self, reported: Reported) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(to_line(reported))


class Rehearsal:
    """The rehearsal of this process: the pod, a mesh over it, and the trace that receives each operation.

    Args:
      topology: The topology, as `nbdist.rehearsal.topology.read_topology` reads it.
      slices: The number of slices of this topology.
      mesh: The axes of the mesh; None for no mesh.
    """

    def __init__(self, topology: str, *, slices: int = 1, mesh: str | None = None) -> None:
        self._devices = describe(read_topology(topology, slices=slices))
        programs = Programs(
            self._devices,
            lambda program: self.report.compiled(program),
            lambda name: self.report.begins(name),
        )
        self.report = ProgramReport()
        """The report of the present cell, or of the script."""
        self.trace = RehearsalTrace(self._devices, programs)
        self._never_left = contextlib.ExitStack()
        self.names: dict[str, Any] = {"pod": Pod(self._devices, programs)}
        """The names that a cell finds."""
        if mesh is not None:
            self.names["mesh"] = self._devices.mesh(mesh)

    def begin(self) -> None:
        """Give this process the pod's devices; from now on every operation of this thread is rehearsed.

        Raises:
          RehearsalError: The installed version of JAX does not allow this.
        """
        make_default(self._devices)
        check_jax()
        Replaced(self.trace).install()
        self._never_left.enter_context(made_current(self.trace))

    def show(self, program: PodProgram) -> None:
        """Show a program that is the value of a cell, unless the cell has reported it."""
        if self.report.first(program):
            _show(program)


def begin(topology: str, mesh: str | None, *, slices: int) -> None:
    """Make this kernel's process a rehearsal, with the names `mesh` and `pod` in its namespace.

    Raises:
      NbdistError: The rehearsal is not possible.
    """
    rehearsal = Rehearsal(topology, slices=slices, mesh=mesh)
    rehearsal.begin()
    shell = _shell()
    shell.user_ns.update(rehearsal.names)
    shell.set_custom_exc((NbdistError,), _shown_alone)
    shell.nbdist_rehearsal = rehearsal


def cell_begins(*, value: float | None, report: str | None) -> None:
    """Begin a cell, in which each program is again shown or reported once.

    Args:
      value: The number that stands in for unknown values in the cell.
      report: The file to write its programs to, in place of showing them; None to show them.
    """
    rehearsal = _shell().nbdist_rehearsal
    rehearsal.report = ProgramReport(show=_show) if report is None else ProgramReport(Path(report))
    rehearsal.trace.stand_in = value


def _shell() -> Any:
    """Return IPython, which a script does without."""
    from IPython.core.getipython import get_ipython

    return get_ipython()


def _show(program: PodProgram) -> None:
    """Show a program in the notebook; as a picture if it exchanges data or does not fit."""
    from IPython.display import display

    text = program_text(program)
    if program.fits and not program.collectives:
        print(text, end="\n\n")
        return
    # The notebook makes the picture from this snapshot.
    data = {"text/plain": text, PROGRAM_MIME_TYPE: encode(program.snapshot())}
    display(data, raw=True)


def _shown_alone(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    **_: Any,
) -> list[str]:
    """Show the user's frames of one of nbdist's errors, and none below them."""
    cut_to_users(trace)
    shown = shell.InteractiveTB.structured_traceback(kind, error, trace)
    publish_error(shell, kind, error, shown)
    return list(shown)


def main() -> int:
    """Run a script.

    Returns:
      0, or 2 if it did not run to its end.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--topology", required=True)
    parser.add_argument("--slices", type=int, default=1)
    parser.add_argument("--mesh")
    parser.add_argument("--value", type=float)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    # If the command is killed, it cannot end this process.
    die_with(options.parent)
    try:
        rehearsal = Rehearsal(options.topology, slices=options.slices, mesh=options.mesh)
        rehearsal.report = ProgramReport(options.report, None if options.silent else _print)
        rehearsal.trace.stand_in = options.value
        rehearsal.begin()
    except NbdistError as error:
        print(f"nbdist rehearse: {error}", file=sys.stderr)
        return 2
    sys.argv = [str(options.script), *options.arguments]
    sys.path[0] = str(options.script.resolve().parent)
    names = {name: value for name, value in rehearsal.names.items() if name == "mesh"}
    try:
        runpy.run_path(str(options.script), init_globals=names, run_name="__main__")
    except NbdistError as error:
        cut_to_users(error.__traceback__)
        traceback.print_exception(error)
        return 2
    except SystemExit as error:
        return 0 if error.code in (None, 0) else 2
    except Exception:  # noqa: BLE001 - the script's own, shown as Python shows it
        traceback.print_exc()
        return 2
    return 0


def _print(program: PodProgram) -> None:
    print(program_text(program), end="\n\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
