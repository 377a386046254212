"""What names hold is looked at in passing: all of it, or the text says that it may not be all."""

from __future__ import annotations

import collections.abc
import dataclasses
import itertools
import threading
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from nbdist.engine.probe import samples as module
from nbdist.engine.probe.samples import OPEN, READ, Sampler, digest_of, glance, samples_of
from nbdist.engine.values import arrays
from nbdist.engine.values.arrays import SMALL_BYTES, small_values
from tests.integration.doubtful import KINDS, SAME, SETUP

UNREAD = {
    *("a_key", "an_old_key", "a_local_array", "a_tree", "a_replica", "a_global_key"),
    "a_folded_key",
    *("a_generator", "a_buffer", "a_text_buffer", "an_iterator", "a_count", "a_proxy"),
}
"""On devices, or written in C and silent."""


class Loud:
    """Of a user whose methods must not be called."""

    __slots__ = ("rows",)

    def __init__(self, rows: object) -> None:
        self.rows = rows

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)

    __eq__ = __hash__ = __repr__ = __reduce_ex__ = __iter__ = __len__ = None  # type: ignore[assignment]


def values(me: int) -> dict[str, Any]:
    """As the process of this number has them after one cell."""
    main = types.ModuleType("__main__")
    space = main.__dict__
    exec(SETUP.replace("me = jax.process_index()", f"me = {me}"), space)
    every = {**{name: made for name, (made, _) in KINDS.items()}, **SAME}
    return {name: eval(made, space) for name, made in every.items()}


@pytest.fixture(scope="module")
def texts() -> list[dict[str, str]]:
    """Of process 0, of process 1, and of process 1 again."""
    return [{n: Sampler().of(v).text for n, v in values(me).items()} for me in (0, 1, 1)]


def test_equal_values_have_one_text(texts: list[dict[str, str]]) -> None:
    assert texts[1] == texts[2]
    assert {name for name in SAME if texts[0][name] != texts[1][name]} == set()


def test_others_have_another_or_say_that_they_were_not_seen(texts: list[dict[str, str]]) -> None:
    zero, one, _ = texts
    assert {name for name in KINDS if zero[name] == one[name]} == UNREAD
    assert {name for name in KINDS if zero[name].endswith("?")} == UNREAD


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        ("a", b"a"),
        (np.arange(6), np.arange(6.0)),
        (np.arange(6), np.arange(6).reshape(2, 3)),
        (np.arange(10_000)[::2], np.arange(5_000)),
        (np.zeros((3, 0)), np.zeros((0, 3))),
        ({"a": 1}, {"b": 1}),
        ([], ()),
        ([1, [2]], [[1], 2]),
    ],
)
def test_kinds_and_places_count(one: object, other: object) -> None:
    assert Sampler().of(one).text == Sampler().of(one).text != Sampler().of(other).text
    assert not Sampler().of(other).text.endswith("?")


def test_no_code_of_the_users_runs() -> None:
    one, again, other = (Sampler().of(Loud([n])) for n in (1, 1, 2))
    assert one == again != other
    assert not one.text.endswith("?")


def test_a_device_counts_by_its_place_on_its_own_process_and_by_its_number_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = jax.devices()[:2]
    for kind in (lambda d: d, SingleDeviceSharding, lambda d: Mesh(np.array([d]), ("a",))):
        monkeypatch.undo()
        its_own = Sampler().of(kind(first)).text
        monkeypatch.setattr(jax, "local_devices", lambda backend: [second])
        assert Sampler().of(kind(second)).text == its_own
        assert Sampler().of(kind(first)).text != its_own


def test_devices_of_several_processes_count_by_their_numbers_on_all_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @dataclasses.dataclass(frozen=True)
    class Device:
        process_index: int
        id: int
        platform: str = "cpu"

    Device.__module__ = "jaxlib._jax"
    devices = [Device(process_index=k // 2, id=k) for k in range(4)]

    def on(process: int, value: Any) -> str:
        own = [one for one in devices if one.process_index == process]
        monkeypatch.setattr(jax, "local_devices", lambda backend: own)
        return Sampler().of(value).text

    grid = np.array(devices, object).reshape(2, 2)
    for value in (devices, tuple(devices), {d.id: d for d in devices}, grid):
        assert on(0, value) == on(1, value)
    assert on(0, devices) != on(0, devices[::-1])
    assert on(0, devices[:2]) == on(1, devices[2:]), "each has its own"
    assert on(0, devices[:2]) != on(1, devices[:2])


def test_what_only_code_and_places_are_made_of_is_nobodys_own() -> None:
    mesh = Mesh(np.array(jax.devices()), ("a",))
    sharding = NamedSharding(mesh, P("a"))
    tree = jax.tree.structure({"w": [1, 2]})
    code = jax.jit(lambda x: x), Loud, len, collections.abc.Sequence
    for value in (np, mesh, sharding, [mesh, {"s": sharding}], tree, *code):
        sample = Sampler().of(value)
        assert not sample.own, value
        assert not sample.text.endswith("?"), value
    for value in (1, [2], {"a": "b"}, lambda x, k=1: k, jax.numpy.zeros(2), threading.Lock()):
        assert Sampler().of(value).own, value


def test_values_of_an_array_on_devices_are_not_read() -> None:
    one, other = (glance(jax.numpy.full(3, k)) for k in (1, 2))
    assert one is not None
    assert one == other
    assert one.own
    assert not one.whole
    assert glance(np.zeros(3)) is None


def test_small_arrays_are_read_beside_all_else_where_all_of_a_name_can_be() -> None:
    def look(value: Any, values: Any = small_values) -> str:
        return samples_of({"x": value}, values=values)["x"]  # type: ignore[index]

    one, other = ({"step": 1, "key": jax.random.key(k), "lr": jnp.float32(1)} for k in (1, 2))
    jax.block_until_ready([one, other])
    assert look(one) == look({**one}) != look(other)
    assert look(one, None) == look(other, None) == look(one).partition(READ)[0] + OPEN
    assert not look(one).endswith(OPEN)
    large = jnp.zeros(SMALL_BYTES)
    assert look([one, large]) != look([other, large])
    assert look([one, large]).endswith(OPEN)
    assert READ not in look(large) + look(5) + look(np.zeros(3))
    later = lambda array: None if array is one["lr"] else "read"  # noqa: E731
    assert look(one, later) == look(one, None)


def test_of_an_array_all_copies_or_parts_of_a_process_are_read_and_nothing_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mesh = jax.make_mesh((8,), ("a",))
    for spec in (P(), P("a")):
        one, other = (
            jax.device_put(jnp.zeros(8).at[7].set(k), NamedSharding(mesh, spec)) for k in (0, 1)
        )
        again = jax.block_until_ready((one + 0, other))[0]
        assert small_values(one) == small_values(again) != small_values(other)
    assert small_values(np.zeros(3)) == ""
    guards = []
    monkeypatch.setattr(
        arrays, "digest", lambda _: str(guards.append(jax.config.jax_transfer_guard_device_to_host))
    )
    with jax.transfer_guard("disallow"):
        assert small_values(one)
    assert {*guards} == {"allow"}
    monkeypatch.setattr(type(one), "is_ready", lambda self: False)
    assert small_values(one) is None
    one.delete()
    assert small_values(one) == ""


def test_a_generator_counts_by_where_it_is() -> None:
    def rows() -> Any:
        for n in range(9):
            yield 2 * n

    began, one, again, other, ended = (rows() for _ in range(5))
    for taken, generator in enumerate((began, one, again, other, ended)):
        [*itertools.islice(generator, (0, 1, 1, 2, 9)[taken])]
    next(ended, None)
    texts = [Sampler().of(one).text for one in (began, one, again, other, ended)]
    assert texts[1] == texts[2]
    assert len({*texts}) == 4
    assert all(text.endswith(OPEN) for text in texts)


def test_names_of_the_user_count_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert samples_of({"a": 1, "_b": 1, "In": [1], "d": 1}) == {
        "a": digest_of(1),
        "d": digest_of(1),
    }
    monkeypatch.setattr(module, "MOST_NAMES", 1)
    assert samples_of({"a": 1, "d": 1}) == {"a": digest_of(1)}


def test_of_what_is_large_some_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    # Four terabytes, of one element.
    large = np.broadcast_to(np.float32(3), (1 << 20, 1 << 20))
    assert Sampler().of(large).text.endswith("?")
    monkeypatch.setattr(module, "MOST_INSIDE", 100)
    one = [[n] for n in range(9000)]
    last = [*one[:-1], [0]]
    assert Sampler().of(one).text.endswith("?")
    assert Sampler().of(one).text != Sampler().of(last).text


def test_what_changes_while_it_is_looked_at_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(value: object, kind: type) -> None:
        raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr(module, "_mapping", changed)
    assert Sampler().of({"a": 1}).text.endswith("?")


@pytest.mark.parametrize("passing", [True, False])
def test_rows_are_told_apart_by_their_values_their_kinds_and_their_ends(passing: bool) -> None:
    rows = [
        [[1], [2]],
        [[1], [3]],
        [[1, 2], []],
        [(1,), (2,)],
        [[1.0], [2]],
        [[True], [2]],
        [[], []],
    ]
    assert len({Sampler(passing=passing).of(one).text for one in rows}) == len(rows)
    long = [[number] for number in range(100_000)]
    changed = [*long[:50_000], [-1], *long[50_001:]]
    texts = [Sampler(passing=passing).of(one).text for one in (long, changed)]
    assert texts[0] != texts[1] and not any(text.endswith(OPEN) for text in texts)
