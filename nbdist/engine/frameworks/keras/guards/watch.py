"""The guard of one process's calls of Keras: examines and agrees on each before it begins, and paces its steps.

`CallGuard.before` finds the facts that other processes compare (`examine`), and whether the call may begin.
During a call, all processes raise a waiting interrupt before the same step. Keras is made to wait for each step
where steps would run too far ahead of the devices (`run_ahead_too_far`). A call without a distribution over
several processes is not guarded.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from nbdist.engine.cell.code_owners import outside
from nbdist.engine.cell.interrupts import AgreedStop, InterruptHandler
from nbdist.engine.frameworks.keras.guards.agreement import CallAgreement
from nbdist.engine.frameworks.keras.guards.arguments import (
    BatchPlaces,
    callbacks_in,
    feed,
    is_tf_dataset,
    rows_digest,
    split_rows,
    written_paths,
)
from nbdist.engine.frameworks.keras.guards.call import (
    GuardedCall,
    batch_refusal,
    dataset_refusal,
    input_refusal,
    output_refusal,
    same_rows,
    save_refusal,
)
from nbdist.errors import InputError, NbdistError
from nbdist.notation import processes_text


def run_ahead_too_far(distribution: Any) -> bool:
    """Return whether steps that nobody waits for would run too far ahead of the devices, and end in a deadlock.

    Seen on CPU where a process has several devices (jaxlib 0.10.2, plain JAX without nbdist, two processes of two
    devices): 16 steps with a collective end, 64 never do. With one device in each process 300 end. The likely
    reason: one device may have a limited number of computations in flight, and steps whose collectives need the
    other device use up that number.
    """
    import jax

    devices = distribution.device_mesh.backend_mesh.devices.flat
    own = [device for device in devices if device.process_index == jax.process_index()]
    return len(own) > 1 and own[0].platform == "cpu"


def with_waiting(callbacks: Any) -> Any:
    """Return the argument `callbacks` with one added that makes Keras wait for the results of each step.

    Keras gives the results to callbacks on other threads and goes on, unless a callback has methods for steps.
    """
    if hasattr(callbacks, "callbacks"):
        return callbacks  # a `CallbackList`, which the caller has made
    return [*callbacks_in(callbacks), _waiting()()]


@functools.cache
def _waiting() -> type[Any]:
    import keras

    class WaitsForEachStep(keras.callbacks.Callback):
        """A callback that makes Keras wait: it has methods that Keras calls at each step, and they do nothing."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing; `logs` are numbers by now."""

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing."""

        def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing."""

    return WaitsForEachStep


Facts = dict[str, int | str | None]
"""The facts of a call, by the keys of `nbdist.engine.frameworks.keras.guards.call.EQUAL`."""


class CallGuard:
    """The guard of Keras' calls on one process's main thread.

    Args:
      agreement: The agreement with the other processes; None: this process checks its own calls only.
      interrupts: The handler of interrupts of this engine.
      stop: Finds the step before which all processes leave a stopped cell.
    """

    def __init__(
        self, agreement: CallAgreement | None, interrupts: InterruptHandler, stop: AgreedStop
    ) -> None:
        self.inside = False
        self._interrupts = interrupts
        self._stop = stop
        self._group: tuple[int, ...] = ()
        self.restore: list[Callable[[], None]] = []
        self._agreement = agreement
        self._host = socket.gethostname()

    def close(self) -> None:
        """Send nothing to other processes from now on."""
        if self._agreement is not None:
            self._agreement.close()

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        """Take calls inside the context as parts of one guarded call, since `fit` evaluates and callbacks save."""
        found = self._places()
        self._group = () if found is None else tuple(found[1].processes)
        self.inside = True
        try:
            with self._interrupts.stepping():
                yield
        finally:
            self.inside = False

    def step(self) -> AbstractContextManager[None]:
        """Return the context of one whole step; all processes raise a waiting interrupt before the same step."""
        self._stop.step(self._group if self.inside else ())
        return self._interrupts.put_off(self._stop.leave)

    def before(self, method: str, model: Any, arguments: Mapping[str, Any]) -> NbdistError | None:
        """Return the error to raise in place of a call of `keras.Model`, or None.

        Args:
          method: The name of the method.
          model: The model whose method is called.
          arguments: The arguments by name, with defaults.
        """
        found = self._places()
        if found is None:
            if self._agreement is not None:
                self._agreement.trains_alone(method)
            return None
        distribution, places = found
        rows: str | None = None
        if method.startswith("save"):
            facts: Facts = {}
            refusal = save_refusal(method, model, arguments)
        else:
            facts, refusal = examine(method, model, arguments, distribution, places)
            if method == "fit" and not distribution.auto_shard_dataset and places.times > 1:
                rows = rows_digest(arguments["x"])
        paths = written_paths(method, arguments)
        return self._meet(method, facts, paths, refusal, places, rows)

    def slow_down(self, arguments: dict[str, Any]) -> None:
        """Make Keras wait for each step where steps would block each other; change `callbacks` for it."""
        found = self._places()
        if found is not None and "callbacks" in arguments and run_ahead_too_far(found[0]):
            arguments["callbacks"] = with_waiting(arguments["callbacks"])

    def helper(self, method: str, **facts: int | str | None) -> NbdistError | None:
        """Return the same as `before` for a function of `nbdist.keras`, which every process must call alike."""
        found = self._places()
        return None if found is None else self._meet(method, facts, (), None, found[1])

    def _places(self) -> tuple[Any, BatchPlaces] | None:
        """Return the distribution that is set and its places, if it spans several processes; None otherwise."""
        jax = sys.modules["jax"]
        distribution = sys.modules["keras"].distribution.distribution()
        if distribution is None:
            return None
        places = BatchPlaces.of(distribution, jax.process_index())
        return (distribution, places) if len(places.processes) > 1 else None

    def _meet(
        self,
        method: str,
        facts: Facts,
        paths: tuple[str, ...],
        refusal: str | None,
        places: BatchPlaces,
        rows: str | None = None,
    ) -> NbdistError | None:
        if not places.own:
            return InputError(
                f"The distribution that is set lies on {processes_text(places.processes)}, not on this process. "
                f"Call {method} on those alone, or set a distribution over all. Nothing was started."
            )
        facts = {"mesh": f"{places.kind} {places.text}", **facts}
        call = GuardedCall(
            method=method, host=self._host, facts=facts, paths=paths, refusal=refusal, rows=rows
        )
        if self._agreement is not None:
            error = self._agreement.meet(call, places.processes)
            if error is not None:
                return error
            said = same_rows(self._agreement.agreed, places.times)
            if said is not None:
                warnings.warn(said, stacklevel=outside("nbdist", "keras"))
        return None if refusal is None else InputError(refusal)


def examine(
    method: str, model: Any, arguments: Mapping[str, Any], distribution: Any, places: BatchPlaces
) -> tuple[Facts, str | None]:
    """Return the facts that must be equal on all processes, and why this process cannot make the call, or None."""
    x, batch_size = arguments["x"], arguments.get("batch_size")
    steps = arguments.get("steps_per_epoch", arguments.get("steps"))
    epochs = arguments.get("epochs", 1) - arguments.get("initial_epoch", 0)
    own = feed(_training_part(arguments), batch_size=batch_size, steps=steps, epochs=epochs)
    data, size, validation_steps = _validation(arguments)
    check = feed(data, batch_size=size, steps=validation_steps)
    refusals = (
        input_refusal(method, arguments, distribution, places),
        output_refusal(method, model, places),
        save_refusal(method, model, arguments),
        batch_refusal(method, "batch_size", own, places),
        batch_refusal(f"validation in {method}", "validation_batch_size", check, places),
        dataset_refusal(method, x, places) if distribution.auto_shard_dataset else None,
    )
    facts: Facts = {
        "steps": own.steps,
        "epochs": arguments.get("epochs"),
        "step rows": places.rows(own.batch),
        "last rows": places.rows(own.last),
        "validation steps": check.steps,
    }
    return facts, next((refusal for refusal in refusals if refusal), None)


class _Rows:
    """A stand-in for an array with this number of rows."""

    def __init__(self, rows: int) -> None:
        self.shape = (rows,)


def _training_part(arguments: Mapping[str, Any]) -> Any:
    x, split = arguments["x"], arguments.get("validation_split")
    if not split or arguments.get("validation_data") is not None:
        return x
    train, _ = split_rows(feed(x, batch_size=None, steps=None).rows, split)
    return x if train is None else _Rows(train)


def _validation(arguments: Mapping[str, Any]) -> tuple[Any, int | None, int | None]:
    """Return the input, batch size and steps of the validation; None for each where there is no validation."""
    size = arguments.get("validation_batch_size") or arguments.get("batch_size")
    steps = arguments.get("validation_steps")
    data, split = arguments.get("validation_data"), arguments.get("validation_split")
    if data is not None:
        pair = isinstance(data, (tuple, list)) and not is_tf_dataset(data)
        return data[0] if pair else data, size, steps
    if split:
        _, rows = split_rows(feed(arguments["x"], batch_size=None, steps=None).rows, split)
        return None if rows is None else _Rows(rows), size, steps
    return None, None, None
