"""What cannot be made on a process that takes another's place stays away alone, with its reason."""

from __future__ import annotations

import re
import sys
import weakref
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from nbdist.contract.calls import Call
from nbdist.contract.calls.namespace import (
    MakeNamespace,
    NamespaceMade,
    NamespacePacked,
    NotMade,
    PackAgain,
)
from nbdist.engine.namespace.copies import CopyStore
from nbdist.engine.namespace.moving import IncomingNamespace, OutgoingNamespace
from nbdist.engine.namespace.names import users
from nbdist.engine.probe.samples import Sample
from nbdist.launch.start.pending import Pending
from nbdist.session.values.namespace import AskedThings, Bringing
from tests.engine.namespace.test_packing import NoPlacements

FILE = "nbdist-a-file-that-is-gone"

CELLS = f"""
import types
class NeedsGlobal:
    def __setstate__(self, state):
        self.value = state["value"] * SCALE.by
class Scale:
    def __setstate__(self, state):
        self.by = state["by"] * UNIT
class Two(Exception):
    def __init__(self, one, two):
        super().__init__(f"{{one}} {{two}}")
class Opens:
    def __setstate__(self, state):
        self.file = open({FILE!r})
class Exits:
    def __setstate__(self, state):
        raise SystemExit(3)
class Refuses:
    def __reduce__(self):
        raise RuntimeError("not from here")
class Anew:
    def __reduce__(self):
        return bytes, (np.zeros(1 << 17, "u1"),)
import numpy as np
needs, SCALE, UNIT = NeedsGlobal(), Scale(), 1
needs.value, SCALE.by, UNIT = 2, 3, 1
ended, opens, exits, refuses, anew = Two("a", "b"), Opens(), Exits(), Refuses(), Anew()
opens.a = exits.a = 1
held = [ended, 5]
shared = [needs]
after = 1
needs_again = needs
"""


class Placements(NoPlacements):
    """Of a framework that has no arrays, on both processes."""

    set = came_from = referent = staticmethod(lambda *_: None)


class Bring(Bringing):
    """Between two namespaces in this process."""

    def between(self, namespace: dict[str, Any]) -> tuple[NamespaceMade, dict[str, str]]:
        """Bring what is in a namespace to a new one.

        Returns:
          What was made; and why the rest was left out, by name.
        """
        placements: Any = Placements()
        # As in another process: cloudpickle knows classes again.
        self.classes = {
            "_DYNAMIC_CLASS_TRACKER_BY_CLASS": weakref.WeakKeyDictionary[Any, Any](),
            "_DYNAMIC_CLASS_TRACKER_BY_ID": weakref.WeakValueDictionary[Any, Any](),
        }
        self.there = OutgoingNamespace(
            namespace,
            placements,
            {},
            lambda names: {name: Sample("a", own=False) for name in names},
            CopyStore(),
        )
        hooks = {"renew": lambda: None, "lost": namespace["refuses"]}
        offer, lying, structure = self.there.offer(users(namespace, {}), hooks)
        self.new: dict[str, Any] = {"__name__": "__main__"}
        self.here = IncomingNamespace(self.new, placements, offer.arrays, lying)
        self.here.share([64, *[1 << 17 for _ in offer.arrays]], [[(0, 0)] for _ in offer.arrays])
        made, more = self._made(MakeNamespace(token="t", lost=()), structure)
        left_out = {one.name: one.why for one in (*offer.left_out, *more)}
        return made, left_out

    def _send(self, process_id: int, call: Call[Any], *buffers: Any) -> Pending[Any]:
        found: Any
        if isinstance(call, PackAgain):
            structure, left_out = self.there.again(without=call.without, late=call.late)
            found = NamespacePacked(left_out=left_out), [structure]
        else:
            with mock.patch.multiple(sys.modules["cloudpickle.cloudpickle"], **self.classes):
                setting = self.here.make(buffers[0], (), lambda _: None)
            names_before = set(self.new) - {"__name__"}
            if isinstance(setting, NotMade):
                assert not names_before
                found = NamespaceMade(not_made=setting), []
            else:
                found = NamespaceMade(names=tuple(setting.names)), []
        return found  # type: ignore[no-any-return]

    def _ask(self, asked: Any) -> Any:
        return asked


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(CELLS, namespace)
    processes: Any = None
    things = AskedThings(key="k", requests={})
    bring = Bring(processes, 1, [0], things, "t", 1, timeout_s=1.0)
    return bring, *bring.between(namespace)


def test_what_raises_where_it_is_made_is_left_out_with_its_reason(brought: Any) -> None:
    bring, made, left_out = brought
    assert {name: re.split(r"[:(]", why)[0] for name, why in left_out.items()} == {
        "ended": "TypeError",
        "held": "TypeError",
        "opens": "FileNotFoundError",
        "exits": "SystemExit",
        "refuses": "RuntimeError",
        "lost": "RuntimeError",
    }
    assert FILE in left_out["opens"]
    assert {*made.names} == {*bring.new} - {"__name__", "__builtins__"}


def test_all_others_come_and_share_what_they_shared(brought: Any) -> None:
    bring, made, _ = brought
    assert {"after", "UNIT", "shared", "Two", "Opens", "anew"} <= {*made.names}
    assert bring.new["shared"][0] is bring.new["needs"] is bring.new["needs_again"]


def test_what_needs_a_global_that_needs_another_is_made_after_them(brought: Any) -> None:
    bring, *_ = brought
    assert (bring.new["SCALE"].by, bring.new["needs"].value) == (3, 6)
