"""Reports that mostly say what the last one said: the same plain data, and nothing encoded twice."""

from __future__ import annotations

import pytest
from msgspec import structs

from nbdist.contract import iopub, wire
from nbdist.contract.iopub import Encoder
from nbdist.contract.snapshot import Array, Report
from nbdist.errors import WireError
from tests.builders.reports import IDLE, named, report, running


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the encoder has had turned into plain data."""
    met: list[object] = []

    def encode(value: object) -> wire.Plain:
        met.append(value)
        return wire.encode(value)

    monkeypatch.setattr(iopub, "encode", encode)
    return met


def arrays_in(met: list[object]) -> list[str]:
    return [one.path for one in met if isinstance(one, Array)]


def test_what_is_encoded_is_what_encode_gives() -> None:
    encoder = Encoder()
    one = report(1, named("w"), named("b"), named("w"))
    for said in (
        one,
        structs.replace(one, sequence=2, activity=running()),
        structs.replace(one, arrays=None),
        one,
    ):
        assert encoder.encode(said) == wire.encode(said)
        assert wire.decode(Report, encoder.encode(said)) == said


def test_an_array_that_has_not_changed_is_not_encoded_again(encoded: list[object]) -> None:
    encoder, w, b = Encoder(), named("w"), named("b")
    encoder.encode(report(1, w, b))
    assert arrays_in(encoded) == ["w", "b"]
    encoded.clear()
    c = named("c")
    found = encoder.encode(report(1, c, b, w, sequence=2))
    assert arrays_in(encoded) == ["c"]
    assert found["arrays"] == [wire.encode(one) for one in (c, b, w)]


def test_what_a_report_leaves_out_is_still_known_in_the_next(encoded: list[object]) -> None:
    encoder, w = Encoder(), named("w")
    first = report(1, w)
    encoder.encode(first)
    encoder.encode(structs.replace(first, sequence=2, arrays=None, activity=IDLE))
    encoded.clear()
    encoder.encode(structs.replace(first, sequence=3))
    assert arrays_in(encoded) == []


def test_what_is_gone_is_forgotten(encoded: list[object]) -> None:
    encoder, w = Encoder(), named("w")
    for arrays in ((w,), (), (w,)):
        encoder.encode(report(1, *arrays))
    assert arrays_in(encoded) == ["w", "w"]


def test_no_other_array_gets_the_place_in_memory_of_one_that_is_known() -> None:
    encoder, known = Encoder(), named("w")
    place = id(known)
    encoder.encode(report(1, known))
    del known
    others = [named("w", shape=(size, 2)) for size in range(1000)]
    assert place not in map(id, others)
    last = encoder.encode(report(1, others[-1]))
    assert last["arrays"][0]["shape"] == [999, 2]


def test_what_has_no_form_is_refused() -> None:
    bad = structs.replace(named("b"), nbytes=2.5j)  # type: ignore[arg-type]
    with pytest.raises(WireError, match=r"^Array cannot be sent: .*complex"):
        Encoder().encode(report(1, named("w"), bad))
