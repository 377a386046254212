"""Proof that processes are in step: small collectives of nbdist's own, with numbers that only they carry.

First all processes meet, with one device each, over connections that nothing else uses: as long as one process
stays away, none sends data that another could take for something else. There they compare how many programs each
has sent, and which. If this comparison is not enough, all devices then take part in a collective like the user's.

JAX keeps the order of a process's collectives. A process with another collective pending is paired wrongly in this
one, so that the proof does not return, or returns numbers that nobody has sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from nbdist.engine.frameworks.jax.plain import plain_settings
from nbdist.engine.frameworks.jax.step.dispatched import Count

WORD = 0xFFFFFFFF
COLUMNS = 6


@dataclass
class Trial:
    """One proof under way.

    `passed` is None until the numbers of all processes have come; `alike` says whether all had sent the same
    programs before, `uneven` whether they had sent different numbers of programs.
    """

    number: int
    done: threading.Event = field(default_factory=threading.Event)
    passed: bool | None = None
    alike: bool = True
    error: str | None = None
    abandoned: bool = False
    uneven: bool = False

    def abandon(self) -> None:
        """End the wait for the proof, if it is not over; a later result proves nothing."""
        if not self.done.is_set():
            self.abandoned = True
            self.done.set()

    @property
    def in_step(self) -> bool:
        """Whether the trial has proven that all processes are in step."""
        return bool(self.passed) and self.alike and not self.abandoned


class Proof:
    """The collectives of proofs on one back end, compiled when this is made.

    Args:
      ignore: Called before and after a proof sends its programs, with the thread, and whether the thread's
        programs are to be left out of the count.

    Raises:
      RuntimeError: JAX cannot compile a program.
    """

    def __init__(self, ignore: Callable[[int, bool], None]) -> None:
        import jax

        self._ignore = ignore
        devices = jax.devices()
        first = {device.process_index: device for device in reversed(devices)}
        # XLA makes new connections for each order of devices, and nothing else uses this reverse order.
        self._meeting = Gathering([first[process] for process in sorted(first, reverse=True)])
        self._all = Gathering(devices)

    def begin(self, number: int, count: Count, *, counted: bool) -> Trial:
        """Send this process's numbers, on a separate thread, since nothing interrupts a wait in C++.

        Args:
          number: The number of this proof, the same on all processes and never used before.
          count: The programs that this process has sent since all were last in step.
          counted: Whether equal counts are proof enough for this process; they are only if all processes say so.
        """
        trial = Trial(number)
        threading.Thread(
            target=self._run, args=(trial, count, counted), name="nbdist-proof", daemon=True
        ).start()
        return trial

    def _run(self, trial: Trial, count: Count, counted: bool) -> None:
        import numpy

        number = (trial.number & WORD, trial.number >> 32 & WORD)
        mine = [*number, count.programs & WORD, count.names, count.kinds, not counted]
        row = numpy.array([mine], numpy.uint32)
        try:
            self._ignore(threading.get_ident(), True)
            found = self._meeting.rows(row)
            # If the counts differ and the collective of all devices passes, the additional programs had no
            # collectives. The processes are then in step, but not alike: one has computed more than the others.
            trial.uneven = not bool((found[:, 2] == row[:, 2]).all())
            trial.alike = bool((found[:, 2:5] == row[:, 2:5]).all())
            passed = bool((found[:, :2] == row[:, :2]).all())
            # All processes have the same rows, and so come to the same result.
            if passed and (trial.uneven or found[:, 5].any()):
                passed = bool((self._all.rows(row)[:, :2] == row[:, :2]).all())
            trial.passed = passed
        except Exception as error:  # noqa: BLE001 - a failure here becomes a typed reply
            trial.passed, trial.error = False, f"{type(error).__name__}: {error}"
        finally:
            self._ignore(threading.get_ident(), False)
            trial.done.set()


class Gathering:
    """A collective that gathers one row from each device, the row of its process.

    Args:
      devices: The devices in the order of their rows.
    """

    def __init__(self, devices: list[Any]) -> None:
        import jax
        import numpy
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        self._jax = jax
        mesh = Mesh(numpy.array(devices), ("every",))
        self._local = [device for device in devices if device.process_index == jax.process_index()]
        self._shape = (len(devices), COLUMNS)
        self._sharding = NamedSharding(mesh, PartitionSpec("every"))
        whole = NamedSharding(mesh, PartitionSpec())
        # On a new thread, where no mesh or device of the user's is in context.
        with ThreadPoolExecutor(1) as alone:
            self._gather = alone.submit(self._compiled, whole).result()

    def _compiled(self, whole: Any) -> Any:
        rows = self._jax.ShapeDtypeStruct(self._shape, "uint32", sharding=self._sharding)
        with plain_settings():
            return self._jax.jit(lambda rows: rows, out_shardings=whole).lower(rows).compile()

    def rows(self, row: Any) -> Any:
        """Return the rows of all devices as a NumPy array; waits for them."""
        import numpy

        make = self._jax.make_array_from_single_device_arrays
        with plain_settings():
            pieces = [self._jax.device_put(row, device) for device in self._local]
            rows = make(self._shape, self._sharding, pieces)
            return numpy.asarray(self._gather(rows).addressable_data(0))
