"""What is said of a namespace that was brought: which names are each process's own, and which are in doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from nbdist.contract.calls.namespace import LeftOut, NamespaceMade, NamespaceOffer
from nbdist.engine.probe.samples import digest_of
from nbdist.monitor.disagreements import ComparedNames
from nbdist.session.values.namespace import (
    AskedThings,
    Bringing,
    Brought,
    CarriedThings,
    differing,
    equal_to_number,
    numbered,
)


def offers(**names: dict[int, Any]) -> dict[int, NamespaceOffer]:
    """By process, from values by name and process."""
    processes = sorted({p for values in names.values() for p in values})
    return {
        p: NamespaceOffer(
            arrays=(), digests={n: digest_of(v[p]) for n, v in names.items() if p in v}
        )
        for p in processes
    }


TWO = offers(me={0: 0, 2: 2}, layers={0: 2, 2: 2}, seed={0: 7, 2: 8}, alone={2: 5})
ONE = offers(me={1: 1}, layers={1: 1}, seed={1: 7})


@pytest.mark.parametrize(
    ("found", "had", "own"),
    [
        (TWO, {}, ("me",)),
        (TWO, {"me": digest_of(3), "x": digest_of(3)}, ("me",)),
        (TWO, {"me": digest_of(7)}, ()),  # the one that ended had something else
        (ONE, {}, ()),  # nothing says that it is more than a 1
        (ONE, {"me": digest_of(3), "layers": digest_of(1)}, ("me",)),
    ],
)
def test_names_of_which_each_process_has_its_own_number(
    found: Any, had: Any, own: tuple[str, ...]
) -> None:
    assert numbered(found, had, 3) == own


def test_names_that_are_not_the_same_everywhere() -> None:
    assert differing(TWO) == ("alone", "me", "seed")
    assert differing(ONE) == ()


def test_names_that_could_be_the_number_of_a_process() -> None:
    assert equal_to_number(ONE) == ("layers", "me")
    assert equal_to_number(TWO) == ("me",)


def brought(found: Mapping[int, NamespaceOffer], **options: Any) -> Brought:
    """As process 3 has it, which gets all names of the first of these."""
    first, *_ = found
    processes: Any = None
    things = AskedThings(key="key", requests={})
    bringing = Bringing(processes, 3, [*found], things, "token", 1, timeout_s=1.0, **options)
    made = NamespaceMade(names=found[first].names, hooks=())
    return bringing._brought(found, (), (), made, CarriedThings(there={}, others=[]))


def alone(**texts: str) -> dict[int, NamespaceOffer]:
    """One process that lives, with names that could be its own but for `code`."""
    own = tuple(name for name in texts if name != "code")
    return {0: NamespaceOffer(arrays=(), names=tuple(texts), digests=texts, own=own)}


def test_where_one_has_lived_on_what_was_not_seen_to_be_the_same_is_unproven() -> None:
    before = ComparedNames(
        had={"same": "1", "other": "2"},
        same=frozenset({"same"}),
        other=frozenset({"other"}),
        changed=frozenset({"step", "code"}),
    )
    names = dict.fromkeys(("same", "other", "step", "new", "code"), "a")
    found = brought(alone(**names), before=before)
    assert found.unproven == ("new",)
    assert found.differing == ("other",)
    assert found.changed == ("step",)
    assert found.unsure == {"new", "other"}
    # There was no other process.
    assert brought(alone(x="a", n=digest_of(0)), alone=True).unproven == ("n",)


def test_where_several_have_lived_on_what_they_have_alike_is_what_it_was() -> None:
    two = {
        p: NamespaceOffer(
            arrays=(),
            names=names,
            digests={n: {"closed": "a?", "seed": f"{p}"}.get(n, "a") for n in names},
            own=names,
        )
        for p, names in {0: ("x", "closed", "seed"), 1: ("x", "closed", "seed", "mine")}.items()
    }
    found = brought(two)
    assert found.unproven == ("closed",), "nobody has seen all of it"
    assert found.differing == ("seed",)
    assert found.elsewhere == {"mine": 1}


@pytest.mark.parametrize(
    "less",
    [
        pytest.param({"left_out": (LeftOut(name="lock", type="lock", why="no"),)}, id="left out"),
        pytest.param({"differing": ("rows",)}, id="not the same everywhere"),
        pytest.param({"unproven": ("key",)}, id="in doubt"),
        pytest.param({"changed": ("step",)}, id="set by the last cell"),
        pytest.param({"elsewhere": {"rows": 2}}, id="only elsewhere"),
        pytest.param({"empty": ("data",)}, id="without values"),
        pytest.param({"unlike": {"patched numpy.sinc": ""}}, id="a setting that is lost"),
        pytest.param({"each_own": ("NumPy's random state",)}, id="a setting in doubt"),
    ],
)
def test_of_one_that_has_less_it_is_not_said_that_all_is_kept(less: Any) -> None:
    whole = Brought(source=0, names=("x",), numbered=("me",), set_again=("x",), hooks=("f: no",))
    assert whole.whole
    assert not replace(whole, **less).whole


def test_names_that_a_function_has_set_again_are_sure() -> None:
    found = Brought(source=0, names=(), differing=("x",), unproven=("n", "y", "z"))
    assert found.unsure == {"x", "n", "y", "z"}
    assert replace(found, set_again=("x", "z", "q")).unsure == {"n", "y"}
