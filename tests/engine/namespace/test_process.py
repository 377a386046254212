"""What a process is beside its names, taken to another: what raises costs that thing, with its reason."""

from __future__ import annotations

import atexit
import builtins
import logging
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from IPython.core.interactiveshell import InteractiveShell

from nbdist.engine.namespace.process import ProcessState

KEY = "key"


class Bag(dict[str, Any]):
    """Has no attribute that it has no key for, and says so as a dictionary does."""

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def items(self) -> Any:
        """Raises."""
        raise OSError("not now")


class Untold:
    """Does not say what it is."""

    @property
    def __class__(self) -> Any:
        raise OSError("not now")


class Unmade(logging.StreamHandler[Any]):
    """A handler that was never initialized, as one of those that others make."""

    def __init__(self) -> None:
        self.level, self.filters, self.formatter = 0, [], None


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessState]:
    """Of a process with one module of the user's, `mine_of_users`."""
    for name in ("register", "unregister"):
        monkeypatch.setattr(atexit, name, getattr(atexit, name))
    module = types.ModuleType("mine_of_users")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys, "argv", ["train.py"])
    shell = InteractiveShell()
    made = ProcessState(shell)
    made._modules = mock.Mock(find=lambda: {module.__name__: module})
    yield made
    for name in vars(builtins).keys() - made._baseline.builtins:
        delattr(builtins, name)
    shell.atexit_operations()
    atexit.unregister(shell.atexit_operations)


def digests(state: ProcessState) -> dict[str, str]:
    return state.digests(state.read(()), lambda values: {}, KEY)


def packed(state: ProcessState) -> bytes:
    return state.packed(state.read(()), (), lambda _: None)


def test_a_setting_that_raises_when_it_is_read_is_named_alone(
    state: ProcessState, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digests(state)
    monkeypatch.setattr(sys, "argv", None)
    builtins.after = 5  # type: ignore[attr-defined]
    there, sent = digests(state), packed(state)
    assert {name for name in there if there[name] != before.get(name)} == {
        "sys.argv",
        "builtins.after",
    }
    monkeypatch.setattr(sys, "argv", ["train.py"])
    del builtins.after  # type: ignore[attr-defined]
    failed = state.take(sent, (), (), lambda one: one)
    assert failed == {"sys.argv": "reading it raised TypeError: 'NoneType' object is not iterable"}
    assert builtins.after == 5  # type: ignore[attr-defined]
    assert digests(state)["sys.argv"] != there["sys.argv"]


def test_what_cannot_be_pickled_is_named_alone(state: ProcessState) -> None:
    builtins.lock, builtins.after = threading.Lock(), 5  # type: ignore[attr-defined]
    failed = state.take(packed(state), (), (), lambda one: one)
    assert failed == {"builtins.lock": "TypeError: cannot pickle '_thread.lock' object"}


@pytest.mark.parametrize("of", ["builtins", "mine_of_users", "defaults", "namespace"])
def test_nothing_of_the_users_ends_it(state: ProcessState, of: str) -> None:
    cyclic: list[Any] = [1]
    cyclic.append({"self": cyclic})
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    users = {"cyclic": cyclic, "deep": deep, "huge": 10**5000, "bag": Bag(a=1), "untold": Untold()}
    if of == "namespace":
        state._shell.user_ns.update(users)
    elif of == "defaults":

        def function(*, given: Any = None) -> None:
            """Has these by default."""

        function.__module__ = "mine_of_users"
        function.__kwdefaults__ = {"given": users}
        sys.modules["mine_of_users"].function = function  # type: ignore[attr-defined]
    else:
        vars(sys.modules[of]).update(users)
    there = digests(state)
    failed = state.take(packed(state), (), (), lambda one: one)
    assert digests(state) == there
    assert failed.keys() <= {"builtins.deep", "builtins.bag", "builtins.untold"}
    while deep:
        deep = deep.pop()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that was installed."""
    module: Any = types.ModuleType("a_library")
    module.LIMIT, module.SAME, module.counted, module.NAMED = 1, 2.5, 7, "host"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_numbers_of_libraries_that_cells_have_set_are_named_and_left_as_they_are(
    state: ProcessState, library: Any
) -> None:
    library.LIMIT, library.NEW = 3, 4
    sent = packed(state)
    library.LIMIT, library.counted, library.NAMED = 1, 8, "another host"
    del library.NEW
    assert state.take(sent, (), (), lambda one: one) == {}
    assert state.constants(KEY).keys() == {"a_library.LIMIT", "a_library.NEW"}
    library.LIMIT, library.NEW = 3, 4
    assert state.constants(KEY) == {}
    del sys.modules["a_library"]
    assert state.constants(KEY) == {}  # the process has not imported it


def test_objects_and_classes_of_the_users_that_stand_in_a_library_come_along(
    state: ProcessState, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["mine_of_users"]
    exec("import abc\nclass Mine(abc.ABC): pass", vars(module))
    library.kind, library.one = module.Mine, module.Mine()
    monkeypatch.setattr(sys, "last_value", module.Mine(), raising=False)
    there, sent = digests(state), packed(state)
    assert {name for name in there if name.startswith("patched")} == {
        "patched a_library.kind",
        "patched a_library.one",
    }
    del library.kind, library.one
    assert state.take(sent, (), (), lambda one: one) == {}
    assert (library.kind, type(library.one)) == (module.Mine, module.Mine)


def test_a_handler_that_cannot_be_described_is_named(state: ProcessState) -> None:
    logger = logging.getLogger("mine_of_users")
    logger.addHandler(Unmade())
    try:
        assert "handlers of logger mine_of_users" in digests(state)
        assert not any("Loggers" in name for name in digests(state))
    finally:
        logger.handlers.clear()
