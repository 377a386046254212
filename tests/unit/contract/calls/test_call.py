"""Every call, answer, message and question: the same after JSON, refused in another shape; who answers what."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec import structs

from nbdist.contract import asides, iopub
from nbdist.contract.calls import (
    PROTOCOL,
    Call,
    Failed,
    Reply,
    answer_type,
    engine,
    from_text,
    inspection,
    reply_from_text,
    reply_to_text,
    stepping,
    to_text,
    values,
)
from nbdist.contract.calls.engine import Greet, Greeted, Look, OtherNbdist, Who
from nbdist.contract.program import MeshAxes
from nbdist.contract.wire import Data, decode, encode
from nbdist.engine.kernel.calls import SentCall as Travelling
from nbdist.engine.kernel.calls import calls
from nbdist.errors import WireError

MODULES = (engine, values, inspection, stepping, asides, iopub, stepping, inspection)
TYPES = sorted(
    {
        one
        for module in MODULES
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, Data) and one.__module__ == module.__name__
    },
    key=lambda one: one.__name__,
)
SCALARS: dict[Any, Any] = {str: "text", int: 7, float: 0.5, bool: True, Any: {"x": [1]}}


def sample(hint: Any) -> Any:
    """A value that a field declared so may have."""
    origin, args = get_origin(hint), get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    if origin is Literal:
        return args[0]
    if origin in (Union, types.UnionType):
        return sample(next(one for one in args if one is not type(None)))
    if origin is tuple:
        return (sample(args[0]),) * 2 if args[1:] == (...,) else tuple(map(sample, args))
    if origin is Mapping:
        return {"key": sample(args[1])}
    if hint is MeshAxes:  # whose fields must belong together
        return MeshAxes(names=("a", "b"), shape=(2, 3), devices=tuple(range(6)))
    hints = get_type_hints(hint)
    return hint(**{one.name: sample(hints[one.name]) for one in structs.fields(hint)})


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
def test_each_type_is_the_same_after_json(cls: type[Any]) -> None:
    value = sample(cls)
    assert decode(cls, json.loads(json.dumps(encode(value)))) == value


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
def test_each_type_refuses_a_field_it_does_not_know_and_one_of_another_type(
    cls: type[Any],
) -> None:
    data = encode(sample(cls))
    with pytest.raises(WireError, match=rf"^{cls.__name__}: object contains unknown field more"):
        decode(cls, {**data, "more": 1})
    hints = get_type_hints(cls)
    for name in (one for one in data if hints.get(one) is not Any):
        with pytest.raises(WireError, match=rf"^{cls.__name__}\.{name}: "):
            decode(cls, {**data, name: object()})


@pytest.mark.parametrize("cls", calls(), ids=lambda cls: cls.NAME)
def test_each_call_is_answered_by_a_function_of_its_own_types(cls: type[Call[Any]]) -> None:
    hints = calls()[cls].__annotations__
    wanted = answer_type(cls)
    said = " | ".join(one.__name__ for one in get_args(wanted) or (wanted,))
    plain = {
        name: re.sub(r"\b(engine|inspection|stepping|values|namespace)\.", "", hints[name])
        for name in hints
    }
    alone = plain["return"].partition(" | tuple[")[0]  # buffers may go with the answer
    assert (plain["call"], alone.removeprefix("tuple[").split(", ")[0]) == (cls.__name__, said)


def test_no_two_calls_have_one_name() -> None:
    assert len({one.NAME for one in calls()}) == len(calls())


def test_a_call_of_a_wrong_shape_is_one_error_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "nbdist.engine.kernel.resident.Resident.of", lambda: pytest.fail("it was asked")
    )
    for text, said in (
        (json.dumps({"timeout_s": "soon"}), "Look.timeout_s: expected float, got str."),
        (json.dumps({}), "Look: object missing required field timeout_s."),
        (json.dumps({"timeout_s": 1, "more": 2}), "Look: object contains unknown field more."),
        (json.dumps([1]), "Look: expected object, got array."),
        ("{", "What should be JSON cannot be read"),
    ):
        (answer,) = Travelling("look", text)().buffers
        failed = reply_from_text(answer.decode()).error
        assert failed is not None and failed.type == "WireError"
        assert failed.text.startswith(said)


def test_a_call_and_a_reply_are_read_as_they_were_written() -> None:
    call = Look(timeout_s=0.5, again=True)
    assert from_text(Look, to_text(call)) == call
    for reply in (Reply(ok={"x": 1}, computed=True), Reply(error=Failed(type="E", text="t"))):
        assert reply_from_text(reply_to_text(reply)) == reply
    # An earlier kernel looks whether there is an error.
    assert json.loads(reply_to_text(Reply(ok={}))) == {"ok": {}}


@pytest.mark.parametrize("call", [Greet, Who])
def test_of_an_engine_of_another_protocol_only_who_it_is_is_read(call: Any) -> None:
    old = {"protocol": PROTOCOL - 1, "nbdist": "0.1", "host": "h2", "shape": "of old"}
    assert call.answer_from(old) == OtherNbdist(nbdist="0.1", host="h2")
    assert call.answer_from({**old, "process_id": 3}).process_id == 3
    with pytest.raises(WireError, match="host"):
        call.answer_from({"protocol": PROTOCOL - 1, "nbdist": "0.1"})


def test_of_this_protocol_all_of_it_is() -> None:
    greeted = sample(Greeted)
    answer = {**encode(greeted), "protocol": PROTOCOL}
    assert isinstance(Greet.answer_from(answer), Greeted)
