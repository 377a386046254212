"""The guard of one process's calls of Keras: calls are agreed on, paced, and never cut off in mid-step.

`install` puts wrappers around methods of `keras.Model`. Each call of `METHODS` first goes to the guard, whose
error is raised in place of the call. `CallGuard.before` collects the facts that other processes compare
(`examine`), and decides whether the call may begin. A call without a distribution over several processes is not
guarded.

During a call, all processes raise a waiting interrupt before the same step. Keras is made to wait for each step if
steps would run too far ahead of the devices (`run_ahead_too_far`). On the JAX back end, an interrupt does not
break off a step, so a model has its values afterwards (`made_whole`). An interrupt can end the wait for the
results of a step (`place`).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from nbdist.engine.cell.interrupts import AgreedStop, InterruptHandler
from nbdist.engine.cell.stacks import outside
from nbdist.engine.frameworks.hooks import replaced as replaced
from nbdist.engine.frameworks.interfaces import ThisProcess
from nbdist.engine.frameworks.jax.private import coordinator_client
from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.guards.agreement import CallAgreement, SharedBoard
from nbdist.engine.frameworks.keras.guards.arguments import (
    BatchPlaces,
    feed,
    is_tf_dataset,
    rows_digest,
    run_ahead_too_far,
    split_rows,
    with_waiting,
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
        self._agreement = agreement
        self._host = socket.gethostname()

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        """Return a context whose calls are parts of one guarded call: `fit` evaluates, and callbacks save."""
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
        """Make Keras wait for each step if steps would block each other; for this, add to `callbacks`."""
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


SHORTEST_SECONDS = 0.00005
LONGEST_SECONDS = 0.002
"""The shortest and longest time between two looks at what is being computed."""


def place() -> bool:
    """Make Keras wait for logs here before it turns them into numbers.

    NumPy's conversion of a JAX array waits in C++, where no interrupt arrives: a process whose peers have left
    the step would never come back.

    Returns:
      Whether the wait could be placed.
    """
    original = private.LOGS.get()
    if original is None:
        return False

    @functools.wraps(original)
    def pythonify_logs(logs: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            until_ready(logs)
        return original(logs)

    private.LOGS.set(pythonify_logs)
    return True


def until_ready(logs: Any) -> None:
    """Wait until no JAX array in `logs` is being computed any more."""
    import keras

    pending = [leaf for leaf in keras.tree.flatten(logs or {}) if hasattr(leaf, "is_ready")]
    pause = SHORTEST_SECONDS
    while pending := [leaf for leaf in pending if not leaf.is_ready()]:
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_SECONDS)


STEPS = {
    "train_function": ("trainable", "non_trainable", "optimizer", "metrics"),
    "test_function": ("trainable", "non_trainable", "metrics"),
    "predict_function": ("trainable", "non_trainable"),
}
"""The attributes of `keras.Model` in which its `make_…` methods put the steps, each with the groups of variables
in the state that the step takes, in order."""

PutOff = Callable[[], AbstractContextManager[None]]
"""A function that returns a context in which interrupts are put off."""


def made_whole(name: str, make: Callable[..., Any], put_off: PutOff) -> Callable[..., Any]:
    """Return a method such as `make_train_function` that makes a step which interrupts do not break off.

    While Keras computes with JAX, the variables do not hold their values, and each step gives the values' memory
    away for its result. Keras puts the values back at the end of an epoch, and when `fit` is left. It takes them
    from the result of the last complete step: an interrupted step has given that memory away, and in the first
    step there is no such result (Keras 3.15.1). So an interrupt waits for the end of a step, and a model without
    values gets back the values it had.

    Args:
      name: The name of the attribute, such as `train_function`.
      make: Keras' method, which is public and may be overridden.
      put_off: Returns a context in which interrupts are put off.
    """

    @functools.wraps(make)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        made = make(self, *args, **options)
        step = getattr(self, name, None)
        if step is not None and not hasattr(step, "nbdist_whole"):
            setattr(self, name, _whole(step, self, STEPS[name], put_off))
        return made

    return method


def _whole(
    step: Callable[..., Any], model: Any, groups: Sequence[str], put_off: PutOff
) -> Callable[..., Any]:
    @functools.wraps(step)
    def whole(state: Any, data: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        try:
            with put_off():
                result = step(state, data)
                _keep(model, groups, result[1])
                return result
        except BaseException:  # raised again, with what the step has left
            if _are_there(state):
                _keep(model, groups, state)
            raise

    whole.nbdist_whole = True  # type: ignore[attr-defined]
    return whole


def _keep(model: Any, groups: Sequence[str], state: Any) -> None:
    """Tell Keras the values of a state, so that `jax_state_sync` can put them back into the variables.

    Keras' trainer for JAX does so itself, but only after a step.
    """
    if private.JAX_STATE_SYNCED.is_kept(model):
        named = {f"{name}_variables": one for name, one in zip(groups, state, strict=False)}
        setattr(model, private.JAX_STATE.name, named)


def put_back(model: Any) -> None:
    """Put values back into a model's variables if a call that was broken off had taken them out."""
    state = private.JAX_STATE.of(model)
    if state and private.JAX_STATE_SYNCED.of(model) is False:
        if _are_there(state.values()):
            model.jax_state_sync()
        setattr(model, private.JAX_STATE.name, None)


def _are_there(state: Iterable[Any]) -> bool:
    """Return whether no value of a state was given away."""
    values = [value for group in state for value in group or ()]
    return not any(value.is_deleted() for value in values if hasattr(value, "is_deleted"))


METHODS = ("fit", "evaluate", "predict", "save", "save_weights")
"""The methods of `keras.Model` that are guarded."""

ATTRIBUTE = "nbdist_watch"
"""The attribute of `keras.Model` that holds the guard."""


def install(process: ThisProcess) -> None:
    """Guard `keras.Model` on this engine; a second call changes nothing."""
    import keras

    if guard() is not None:
        return
    watch = CallGuard(_agreement(process), process.interrupts, process.stop)
    setattr(keras.Model, ATTRIBUTE, watch)
    for name in METHODS:
        method = _guarded(name, getattr(keras.Model, name), watch)
        setattr(keras.Model, name, method)
    if keras.config.backend() == "jax":
        for step in STEPS:
            name = f"make_{step}"
            method = made_whole(step, getattr(keras.Model, name), watch.step)
            setattr(keras.Model, name, method)
    place()


def guard() -> CallGuard | None:
    """Return the guard of `keras.Model`; None where it has none, as in a plain process."""
    import keras

    watch: CallGuard | None = vars(keras.Model).get(ATTRIBUTE)
    return watch


def _agreement(process: ThisProcess) -> CallAgreement | None:
    """Return the agreement with the other processes; None if JAX is not connected to a coordinator."""
    if coordinator_client() is None:
        return None
    board = SharedBoard(coordinator_client, process.process_id)
    agreement = CallAgreement(board, process.cell, process.process_id, process.host)
    process.cell.at_edges(agreement.edge)
    return agreement


def _guarded(name: str, original: Callable[..., Any], watch: CallGuard) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        if watch.inside or threading.current_thread() is not threading.main_thread():
            return original(self, *args, **options)
        try:
            bound = signature.bind(self, *args, **options)
        except TypeError:
            return original(self, *args, **options)  # the call's own error is the right one
        bound.apply_defaults()
        error = watch.before(name, self, bound.arguments)
        if error is not None:
            raise error
        watch.slow_down(bound.arguments)
        with watch.within():
            try:
                return original(*bound.args, **bound.kwargs)
            except BaseException:
                put_back(self)
                raise

    return method
