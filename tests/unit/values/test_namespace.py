"""What is said of a namespace that was brought: which names are each process's own, and which are in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nbdist.contract.calls.namespace import NamespaceOffer
from nbdist.engine.probe.samples import digest_of
from nbdist.values.namespace import Brought, differing, equal_to_number, numbered


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


def test_names_that_a_function_has_set_again_are_sure() -> None:
    found = Brought(source=0, names=(), differing=("x",), doubtful=("n",), alone=("y", "z"))
    assert found.unsure == {"x", "n", "y", "z"}
    assert replace(found, set_again=("x", "z", "q")).unsure == {"n", "y"}
