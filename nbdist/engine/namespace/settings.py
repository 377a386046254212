"""Settings that Python and its libraries keep for a process, and how each is read and set."""

from __future__ import annotations

import atexit
import decimal
import gc
import importlib
import locale
import logging
import os
import pathlib
import random
import signal
import socket
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdist.engine.namespace.modules import new_builtins, reducers
from nbdist.engine.namespace.things import (
    Carried,
    Fixed,
    Mine,
    SingleThing,
    ThingFamily,
    ThingKind,
    attribute,
    got,
    name_of,
)

OWN_VARIABLES = (
    *("NBDIST_", "JAX_", "XLA_", "LIBTPU_", "TPU_", "KERAS_DISTRIBUTION_", "TF_CONFIG", "IPP_"),
    *("CUDA_VISIBLE_DEVICES", "SLURM_", "OMPI_", "PMI_", "JPY_", "COLUMNS", "LINES"),
)
"""Beginnings of environment variables that a start sets for each process."""

LIBRARY_THREADS = ("threading",)
"""Modules of the standard library; a thread that runs a function of one counts as the user's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The state that a process had when it was ready for cells, the same on every process of its kind."""

    environ: Mapping[str, str] = field(repr=False)
    path: tuple[str, ...]
    folder: str
    threads: frozenset[int]
    builtins: frozenset[str]
    drawn: Mapping[str, str] = field(repr=False)

    @classmethod
    def now(cls) -> Baseline:
        """Return a baseline of this process's present state."""
        return cls(
            environ=dict(os.environ),
            path=tuple(sys.path),
            folder=_folder(),
            threads=frozenset(t.ident for t in threading.enumerate() if t.ident is not None),
            builtins=frozenset(vars(sys.modules["builtins"])),
            drawn={name: repr(get()) for name, get, _ in _streams()},
        )


def settings(
    baseline: Baseline, mine: Mine, at_exit: AtExit, names: Mapping[str, Any]
) -> tuple[ThingKind, ...]:
    """Return all kinds of settings, in the order in which they are set.

    Args:
      baseline: The state of the process at its start.
      mine: Tells what the user has written.
      at_exit: Functions noted for the end of the process.
      names: The user's names, which show what the user uses.
    """
    return (
        environment(baseline.environ),
        SingleThing("working folder", lambda: _moved(baseline.folder), os.chdir),
        SingleThing(
            "sys.path", lambda: _entries(baseline.path), lambda v: _set_path(v, baseline.path)
        ),
        *_of_python(),
        *_of_libraries(),
        SingleThing("time zone", lambda: (time.timezone, time.tzname), lambda _: time.tzset()),
        signal_handlers(mine),
        Loggers(),
        Streams(baseline.drawn, names),
        new_builtins(baseline.builtins),
        reducers(mine),
        at_exit,
        Running(baseline.threads, mine),
    )


def _folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def _moved(before: str) -> Any:
    now = _folder()
    if now == before:
        raise LookupError
    return now or Fixed("gone")


def _entries(before: tuple[str, ...]) -> list[str | int]:
    """Return `sys.path`; an entry of the start as its index, since folders differ between hosts."""
    return [before.index(one) if one in before else one for one in sys.path]


def _set_path(entries: list[str | int], before: tuple[str, ...]) -> None:
    there = [one for one in entries if isinstance(one, str) or one < len(before)]
    sys.path[:] = [one if isinstance(one, str) else before[one] for one in there]


ENVIRONMENT = "environment variable "


def environment(before: Mapping[str, str]) -> ThingFamily:
    """Return the variables that were set, changed or deleted (None) since the start; values are secrets."""

    def changed() -> dict[str, str | None]:
        now = dict(os.environ)
        names = [name for name in {**before, **now} if now.get(name) != before.get(name)]
        return {name: now.get(name) for name in names if not name.startswith(OWN_VARIABLES)}

    def put(name: str, value: str | None) -> None:
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

    return ThingFamily(ENVIRONMENT, changed, put)


def _of_python() -> Iterator[ThingKind]:
    yield SingleThing("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit)
    yield SingleThing("switch interval", sys.getswitchinterval, sys.setswitchinterval)
    yield SingleThing("digits of integers", sys.get_int_max_str_digits, sys.set_int_max_str_digits)
    yield SingleThing("sys.argv", lambda: list(sys.argv), lambda v: setattr(sys, "argv", v))
    yield attribute("writing of byte code", sys, "dont_write_bytecode")
    yield SingleThing("warning filters", lambda: list(warnings.filters), _set_filters)
    yield SingleThing("decimal context", _decimal, _set_decimal)
    yield SingleThing(
        "locale",
        lambda: locale.setlocale(locale.LC_ALL),
        lambda v: locale.setlocale(locale.LC_ALL, v),
    )
    yield SingleThing(
        "garbage collection",
        lambda: (gc.get_threshold(), gc.isenabled(), gc.get_debug()),
        _set_collection,
    )
    yield SingleThing("socket timeout", socket.getdefaulttimeout, socket.setdefaulttimeout)
    yield SingleThing("umask", _umask, os.umask)
    yield SingleThing(
        "traced memory",
        lambda: tracemalloc.is_tracing() and tracemalloc.get_traceback_limit(),
        lambda v: tracemalloc.start(v) if v else tracemalloc.stop(),
    )
    yield SingleThing("limits of resources", _limits, _set_limits)
    yield SingleThing("start method of processes", _start_method, _set_start_method)


def _set_collection(value: tuple[Any, bool, int]) -> None:
    thresholds, enabled, debug = value
    gc.set_threshold(*thresholds)
    gc.set_debug(debug)
    if enabled:
        gc.enable()
    else:
        gc.disable()


def _set_filters(filters: list[Any]) -> None:
    with warnings.catch_warnings():  # its end makes Python read the filters again
        pass
    warnings.filters[:] = filters  # type: ignore[index]
    with warnings.catch_warnings():
        pass


def _decimal() -> tuple[Any, ...]:
    one = decimal.getcontext()
    raised = tuple(sorted(signal.__name__ for signal, on in one.traps.items() if on))
    return one.prec, one.rounding, one.Emin, one.Emax, one.capitals, one.clamp, raised


def _set_decimal(value: tuple[Any, ...]) -> None:
    one = decimal.getcontext()
    one.prec, one.rounding, one.Emin, one.Emax, one.capitals, one.clamp, raised = value
    for kind in one.traps:
        one.traps[kind] = kind.__name__ in raised


def _umask() -> int:
    """Return the umask from `/proc/self/status`: `os.umask` would change it for a moment, for all threads."""
    try:
        with pathlib.Path("/proc/self/status").open(encoding="ascii", errors="replace") as status:
            return next(int(line.split()[1], 8) for line in status if line.startswith("Umask:"))
    except (OSError, StopIteration):
        raise LookupError from None


def _limits() -> dict[str, tuple[int, int]]:
    import resource

    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {name: resource.getrlimit(getattr(resource, name)) for name in names}


def _set_limits(limits: Mapping[str, tuple[int, int]]) -> None:
    import resource

    for name, value in limits.items():
        if resource.getrlimit(getattr(resource, name)) != value:
            resource.setrlimit(getattr(resource, name), value)


def _start_method() -> Any:
    if "multiprocessing.context" not in sys.modules:
        raise LookupError
    return sys.modules["multiprocessing"].get_start_method(allow_none=True)


def _set_start_method(method: str | None) -> None:
    import multiprocessing

    multiprocessing.set_start_method(method, force=True)


def _of_libraries() -> Iterator[ThingKind]:
    def numpy() -> Any:
        if "numpy" not in sys.modules:
            raise LookupError
        return sys.modules["numpy"]

    def set_options(options: dict[str, Any]) -> None:
        numpy().set_printoptions(**{n: one for n, one in options.items() if n != "override_repr"})

    yield SingleThing("NumPy's print options", lambda: numpy().get_printoptions(), set_options)
    yield SingleThing("NumPy's errors", lambda: numpy().geterr(), lambda v: numpy().seterr(**v))
    yield SingleThing(
        "NumPy's error function", lambda: numpy().geterrcall(), lambda v: numpy().seterrcall(v)
    )
    yield SingleThing(
        "NumPy's buffer", lambda: numpy().getbufsize(), lambda v: numpy().setbufsize(v)
    )
    yield pandas_options()
    yield matplotlib_parameters()


def pandas_options() -> ThingFamily:
    """Return the options of pandas; none where it is not imported."""

    def every() -> dict[str, Any]:
        options = getattr(sys.modules.get("pandas"), "options", None)
        return {} if options is None else dict(under(options, ""))

    def under(options: Any, above: str) -> Iterator[tuple[str, Any]]:
        for name in dir(options):
            with warnings.catch_warnings(action="ignore"):  # of deprecated options
                value = getattr(options, name)
            if type(value) is type(options):
                yield from under(value, f"{above}{name}.")
            else:
                yield above + name, value

    def put(name: str, value: Any) -> None:
        importlib.import_module("pandas").set_option(name, value)

    return ThingFamily("pandas' option ", every, put)


def matplotlib_parameters() -> ThingFamily:
    """Return matplotlib's `rcParams` but the back end; none where it is not imported."""

    def every() -> dict[str, Any]:
        # As a plain dictionary: matplotlib's own access would choose a back end.
        found = dict.items(getattr(sys.modules.get("matplotlib"), "rcParams", {}))
        return {n: value for n, value in found if n not in ("backend", "backend_fallback")}

    def put(name: str, value: Any) -> None:
        importlib.import_module("matplotlib").rcParams[name] = value

    return ThingFamily("matplotlib's ", every, put)


def signal_handlers(mine: Mine) -> ThingFamily:
    """Return the handlers of all signals but SIGINT, which is nbdist's; those of libraries are only compared."""

    def value_of(handler: Any) -> Any:
        if not callable(handler) or isinstance(handler, signal.Handlers):
            return None if handler is None else int(handler)
        return handler if handler in mine else Fixed(name_of(handler))

    return ThingFamily(
        "handler of ",
        lambda: {
            str(getattr(number, "name", number)): value_of(signal.getsignal(number))
            for number in signal.valid_signals() - {signal.SIGINT}
        },
        lambda name, handler: signal.signal(getattr(signal, name), handler),
    )


class Loggers:
    """Levels and flags of loggers, and handlers of the kinds that `logging` itself has."""

    LEVEL, HANDLERS, ROOT = "level of logger ", "handlers of logger ", "root"

    def read(self) -> Mapping[str, Any]:
        """Return the disabled level, and the states and handlers of loggers that are not the defaults."""
        manager = logging.root.manager
        there = {n: one for n, one in manager.loggerDict.items() if isinstance(one, logging.Logger)}
        found: dict[str, Any] = {"logging that is disabled": manager.disable}
        for name, one in {self.ROOT: logging.root, **there}.items():
            state = (one.level, one.propagate, one.disabled, len(one.filters))
            if state != (0, True, False, 0):
                found[self.LEVEL + name] = state
            # Libraries give their loggers a handler that does nothing when they are imported.
            used = [h for h in one.handlers if not isinstance(h, logging.NullHandler)]
            if used:
                handlers = [_handler(handler) for handler in used]
                texts = [h.text if isinstance(h, Fixed) else repr(h) for h in handlers]
                found[self.HANDLERS + name] = Carried(repr(texts), handlers)
        return found

    def write(self, name: str, value: Any) -> None:
        """Disable logging up to a level, set a logger's level and flags, or add the handlers that it lacks."""
        if name.startswith("logging"):
            logging.disable(value)
        elif name.startswith(self.LEVEL):
            logger = self._logger(name.removeprefix(self.LEVEL))
            logger.setLevel(value[0])
            logger.propagate, logger.disabled = value[1:3]
        else:
            logger = self._logger(name.removeprefix(self.HANDLERS))
            there = [_handler(handler) for handler in logger.handlers]
            for one in value:
                if one not in there and not isinstance(one, Fixed):
                    logger.addHandler(_made(one))

    def _logger(self, name: str) -> logging.Logger:
        return logging.root if name == self.ROOT else logging.getLogger(name)


def _handler(handler: logging.Handler) -> Any:
    """Return the parts of a handler of `logging`; for any other handler a `Fixed` with its type."""
    try:
        return _parts(handler)
    except Exception:  # noqa: BLE001 - any handler's own, such as one that has never been initialized
        return Fixed(name_of(type(handler)))


def _parts(handler: logging.Handler) -> Any:
    kind, formatter = type(handler), handler.formatter
    own = formatter is not None and type(formatter) is not logging.Formatter
    target: Any = None
    if isinstance(handler, logging.FileHandler):
        target = (handler.baseFilename, handler.encoding)
    elif isinstance(handler, logging.StreamHandler):
        stream = handler.stream
        names = {id(sys.stdout): "stdout", id(sys.stderr): "stderr"}
        target = names.get(id(stream), getattr(stream, "name", None))
    known = kind in (logging.StreamHandler, logging.FileHandler)
    if (
        own
        or not known
        or handler.filters
        or (kind is logging.StreamHandler and target not in ("stdout", "stderr"))
    ):
        return Fixed(f"{name_of(kind)} {target}")
    said = None if formatter is None else (formatter._fmt, formatter.datefmt)
    return kind.__name__, handler.level, said, target


def _made(described: Any) -> logging.Handler:
    kind, level, said, target = described
    if kind == "FileHandler":
        # The mode is append: the process that is replaced has written to the file.
        handler: logging.Handler = logging.FileHandler(target[0], "a", target[1], delay=True)
    else:
        handler = logging.StreamHandler(getattr(sys, target))
    handler.setLevel(level)
    if said is not None:
        handler.setFormatter(logging.Formatter(*said))
    return handler


def _streams() -> list[tuple[str, Callable[[], Any], Callable[[Any], object]]]:
    found: list[tuple[str, Callable[[], Any], Callable[[Any], object]]] = [
        ("Python's random state", random.getstate, random.setstate)
    ]
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:

        def get() -> Any:
            kind, keys, *rest = numpy.get_state()
            return (kind, keys.tobytes(), *rest)

        def put(state: Any) -> None:
            kind, keys, *rest = state
            numpy.set_state((kind, sys.modules["numpy"].frombuffer(keys, "u4"), *rest))

        found.append(("NumPy's random state", get, put))
    return found


class Streams:
    """Random numbers of Python and NumPy, if the user has seeded or drawn any.

    Libraries draw from Python's generator for names of files, so that one counts only if the user's names lead to
    `random`.

    Args:
      before: The states at the start, the same in every process.
      names: The user's names.
    """

    def __init__(self, before: Mapping[str, str], names: Mapping[str, Any]) -> None:
        self._before, self._names = before, names

    def read(self) -> Mapping[str, Any]:
        """Return the states that have changed since the start."""
        owner = getattr(random.seed, "__self__", None)
        used = any(
            one is random or (owner is not None and got(one, "__self__") is owner)
            for one in list(self._names.values())
        )
        return {
            name: value
            for name, get, _ in _streams()[0 if used else 1 :]
            if repr(value := get()) != self._before.get(name)
        }

    def write(self, name: str, value: Any) -> None:
        """Set a state."""
        next(put for one, _, put in _streams() if one == name)(value)


class AtExit:
    """Functions of the user's that are called at the end of the process.

    Python tells nobody which functions are registered, so `atexit.register` notes those that come from now on.
    """

    PREFIX = "atexit function "

    def __init__(self) -> None:
        self.noted: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self.mine = Mine(())
        register, unregister = atexit.register, atexit.unregister

        def note(function: Any, *args: Any, **options: Any) -> Any:
            self.noted.append((function, args, options))
            return register(function, *args, **options)

        def forget(function: Any) -> None:
            self.noted[:] = [one for one in self.noted if one[0] != function]
            unregister(function)

        atexit.register, atexit.unregister = note, forget  # type: ignore[assignment]

    def read(self) -> Mapping[str, Any]:
        """Return the noted functions that are the user's, with their arguments."""
        return {f"{self.PREFIX}{name_of(one[0])}": one for one in self.noted if one[0] in self.mine}

    def write(self, name: str, value: Any) -> None:
        """Register a function with its arguments."""
        function, args, options = value
        atexit.register(function, *args, **options)


class Running:
    """Threads, child processes and timers of the user's, which cannot move to another process.

    Args:
      before: Idents of the threads at the start.
      mine: Tells whose threads count.
    """

    def __init__(self, before: frozenset[int], mine: Mine) -> None:
        self._before, self._mine = before, mine

    def read(self) -> Mapping[str, Any]:
        """Return all of these that are running or waiting, as things that cannot be set."""
        found = {}
        for thread in threading.enumerate():
            does = getattr(thread, "function", None) or getattr(thread, "_target", None)
            its = got(does, "__module__") in LIBRARY_THREADS
            if thread.ident not in self._before and (
                its or does in self._mine or thread in self._mine
            ):
                found[f"thread {thread.name}"] = Fixed("runs")
        children: Any = sys.modules.get("multiprocessing.process")
        for child in children.active_children() if children is not None else ():
            found[f"child process {child.name}"] = Fixed("runs")
        if signal.getitimer(signal.ITIMER_REAL)[0]:
            found["an alarm"] = Fixed("waits")
        return found

    def write(self, name: str, value: Any) -> None:
        """Do nothing: these things cannot be set."""
