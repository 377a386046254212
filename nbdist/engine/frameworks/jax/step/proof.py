"""The proof that processes are in step: small collectives of our own, with numbers only they know.

First all processes meet, with one device each, over connections that nothing else uses: as long as one stays away,
none sends what another could take for something else. There they compare how many programs each has sent, and
which. Then, where that is not enough, all devices take part in a collective like those of the user.

JAX keeps the order of a process's collectives. A process that has another one pending pairs the wrong ones in
this, so that the proof does not come back, or brings what nobody has sent.
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

    `passed` is None until the numbers of all processes are here; `alike` says whether all had sent the same
    programs before.
    """

    number: int
    done: threading.Event = field(default_factory=threading.Event)
    passed: bool | None = None
    alike: bool = True
    error: str | None = None
    abandoned: bool = False
    uneven: bool = False

    def abandon(self) -> None:
        """Ends the wait for it, if it is not over yet; whatever comes later is no proof."""
        if not self.done.is_set():
            self.abandoned = True
            self.done.set()

    @property
    def in_step(self) -> bool:
        """Whether it has proven that all are in step."""
        return bool(self.passed) and self.alike and not self.abandoned


class Proof:
    """Made once for each back end, compiled at once.

    Args:
      ignore: Called around what the proof itself sends, with the thread, and whether its programs are to be left
        out of the count.

    Raises:
      RuntimeError: JAX's own, where a program cannot be compiled.
    """

    def __init__(self, ignore: Callable[[int, bool], None]) -> None:
        import jax

        self._ignore = ignore
        devices = jax.devices()
        first = {device.process_index: device for device in reversed(devices)}
        # XLA connects devices anew for each order of them, and nobody else has them backwards.
        self._meeting = Gathering([first[process] for process in sorted(first, reverse=True)])
        self._all = Gathering(devices)

    def begin(self, number: int, count: Count, *, counted: bool) -> Trial:
        """Sends this process's numbers, on a thread of its own, since nothing interrupts a wait in C++.

        Args:
          number: Of this proof, the same on all processes and never used before.
          count: What this process has sent since the last one.
          counted: Whether this process thinks equal counts proof enough; all processes must.
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
            # If the collective of all devices passes, a program more on one process had none. It has computed what
            # the others have not: that is in step, and not alike.
            trial.uneven = not bool((found[:, 2] == row[:, 2]).all())
            trial.alike = bool((found[:, 2:5] == row[:, 2:5]).all())
            passed = bool((found[:, :2] == row[:, :2]).all())
            # All have the same rows, and so the same answer.
            if passed and (trial.uneven or found[:, 5].any()):
                passed = bool((self._all.rows(row)[:, :2] == row[:, :2]).all())
            trial.passed = passed
        except Exception as error:  # noqa: BLE001 - a failure here becomes a typed reply
            trial.passed, trial.error = False, f"{type(error).__name__}: {error}"
        finally:
            self._ignore(threading.get_ident(), False)
            trial.done.set()


class Gathering:
    """A collective in which these devices bring each other their process's row.

    Args:
      devices: In this order.
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
        # On a thread of its own, where no mesh or device of the user's is in context.
        with ThreadPoolExecutor(1) as alone:
            self._gather = alone.submit(self._compiled, whole).result()

    def _compiled(self, whole: Any) -> Any:
        rows = self._jax.ShapeDtypeStruct(self._shape, "uint32", sharding=self._sharding)
        with plain_settings():
            return self._jax.jit(lambda rows: rows, out_shardings=whole).lower(rows).compile()

    def rows(self, row: Any) -> Any:
        """The rows of all devices, as a NumPy array; waits for them."""
        import numpy

        make = self._jax.make_array_from_single_device_arrays
        with plain_settings():
            pieces = [self._jax.device_put(row, device) for device in self._local]
            rows = make(self._shape, self._sharding, pieces)
            return numpy.asarray(self._gather(rows).addressable_data(0))
