"""A whole namespace pickled and made again: what functions of cells share stays one namespace."""

from __future__ import annotations

import pickle
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from nbdist.engine.namespace.copies import CopyStore
from nbdist.engine.namespace.moving import OutgoingNamespace
from nbdist.engine.namespace.names import users
from nbdist.engine.namespace.packing import packed, unpacked, unpacked_each
from nbdist.engine.probe.samples import Sample, samples_of

CELLS = """
import collections, dataclasses, functools
counter = 0
def bump():
    global counter
    counter += later
    return counter
def outer():
    inside = [1]
    def inner():
        inside.append(counter)
        return inside
    return inner
inner = outer()
inner_2 = inner
@dataclasses.dataclass
class Box:
    value: object
    def twice(self):
        return self.value * later
box = Box(3)
part = functools.partial(bump)
queue = collections.deque([box])
later = 2
"""


def nothing(value: Any) -> None:
    """Nothing stands in for any object."""


def made(text: str = CELLS) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(text, namespace)
    return namespace


def taken(namespace: dict[str, Any]) -> dict[str, Any]:
    """The same on a process that has no names yet."""
    names = users(namespace, {})
    new: dict[str, Any] = {"__name__": "__main__"}
    new.update(unpacked(packed(names, namespace, nothing, nothing), new, nothing))
    return new


def test_functions_of_cells_see_what_later_cells_set() -> None:
    new = taken(made())
    assert [new["bump"](), new["part"](), new["counter"]] == [2, 4, 4]
    new["later"] = 10
    assert [new["bump"](), new["counter"]] == [14, 14]
    assert new["bump"].__globals__ is new
    assert new["box"].twice() == 30


def test_what_was_one_object_is_one() -> None:
    new = taken(made())
    assert new["inner"] is new["inner_2"]
    assert new["inner"]() is new["inner_2"]() == [1, 0, 0]
    assert new["queue"][0] is new["box"]
    assert type(new["box"]) is new["Box"]


def test_what_came_from_another_process_is_seen_to_be_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    namespace = made(
        CELLS
        + "P = collections.namedtuple('P', 'x y')\nclass Q(P):\n    b, a = 1, 2\nq = Q(1, [2])"
    )
    # As where it comes from another process: here cloudpickle would know the classes again.
    module = sys.modules["cloudpickle.cloudpickle"]
    monkeypatch.setattr(module, "_DYNAMIC_CLASS_TRACKER_BY_CLASS", weakref.WeakKeyDictionary())
    data = packed(users(namespace, {}), namespace, nothing, nothing)
    monkeypatch.setattr(module, "_DYNAMIC_CLASS_TRACKER_BY_ID", weakref.WeakValueDictionary())
    new: dict[str, Any] = {"__name__": "__main__"}
    new.update(unpacked(data, new, nothing))
    assert new["Q"] is not namespace["Q"]
    assert samples_of(new) == samples_of(namespace)


SHARED = """
import numpy as np
def counting():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    def now():
        return n
    def recursive(k):
        return n if k == 0 else recursive(k - 1)
    return up, now, recursive
up, now, recursive = counting()
whole = np.arange(12.0).reshape(3, 4)
base = np.arange(6)
column, back, alone = whole[:, 1], base[::-1], np.arange(9)[2:4]
"""


def test_what_functions_and_arrays_share_stays_shared() -> None:
    new = taken(made(SHARED))
    assert [new["up"](), new["up"](), new["now"](), new["recursive"](3)] == [1, 2, 2, 2]
    new["whole"][:] = 7
    new["base"][0] = 9
    assert new["column"].tolist() == [7.0] * 3  # views of one array that has no name
    assert new["back"].tolist() == [5, 4, 3, 2, 1, 9]
    assert new["alone"].tolist() == [2, 3]
    assert new["alone"].base.size == 2  # nothing else goes along


def test_the_namespace_itself_stays_the_namespace() -> None:
    namespace = made("here = globals()")
    new = taken(namespace)
    assert new["here"] is new


def test_a_file_belongs_to_its_process(tmp_path: Any) -> None:
    (tmp_path / "text").write_text("a")
    with (tmp_path / "text").open() as file, pytest.raises(pickle.PicklingError, match="belongs"):
        packed({"file": file}, {}, nothing, nothing)


class NoPlacements:
    """Of a framework that has no arrays."""

    def is_array(self, value: Any) -> bool:
        return False

    reference = settings = staticmethod(lambda *_: None)
    changes = staticmethod(tuple)


class Odd:
    """Cannot be pickled as it says."""

    def __reduce__(self) -> Any:
        raise TypeError("not so")


class Fake:
    """What a framework says of its objects."""

    def reduce(self, value: Any) -> Any | None:
        return (list, (("odd",),)) if isinstance(value, Odd) else None

    def settings(self) -> Any:
        return "as set"

    def set(self, settings: Any) -> None:
        raise AssertionError("on the other process alone")


def test_what_cannot_go_is_left_out_by_name_and_the_rest_goes() -> None:
    namespace = made() | {"lock": threading.Lock(), "large": np.arange(1 << 15), "odd": Odd()}
    namespace["large_2"] = namespace["large"]
    outgoing: Any = OutgoingNamespace(
        namespace,
        NoPlacements(),  # type: ignore[arg-type]
        {"fake": Fake()},
        lambda names: {name: Sample("a", own=name == "large") for name in names},
        CopyStore(),
    )
    offer, _, structure = outgoing.offer(users(namespace, {}), {})
    assert [(one.name, one.type) for one in offer.left_out] == [("lock", "lock")]
    assert "cannot pickle" in offer.left_out[0].why
    assert [(one.key, one.shape) for one in offer.arrays] == [("numpy 0", (1 << 15,))]
    assert "lock" not in offer.names and "bump" in offer.names
    new: dict[str, Any] = {}
    entries, *values = unpacked_each(structure, new, lambda reference: f"array {reference}")
    names = {e.name: value for e, value in zip(entries, values, strict=True)}
    assert (offer.own, offer.digests["large"]) == (("large",), "a")
    assert names["fake"] == "as set"
    assert names["odd"] == ["odd"]
    assert names["large"] == names["large_2"] == "array 0"


def test_names_of_ipython_and_of_the_call_that_asks_do_not_go() -> None:
    hidden = object()
    namespace = {
        **dict.fromkeys(["In", "_", "_i", "_i12", "_3", "__builtins__", "_oh", "get_ipython"], 1),
        "_d5201484_b5e83d8c7180081655c84b76_28263_36_args": 1,
        "quit": 1,
        "shown": hidden,
        "_mine": 2,
        "x": 3,
    }
    assert users(namespace, {"shown": hidden}) == {"_mine": 2, "x": 3}
    assert "shown" in users(namespace, {"shown": object()})
