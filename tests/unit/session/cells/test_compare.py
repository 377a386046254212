"""The facts of several processes compared, and the error a person reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from nbdist.contract.calls.engine import Agreement, AskAgreement
from nbdist.contract.cells import (
    DistributionFacts,
    Facts,
    LocalArray,
    NameFacts,
    NamesFacts,
)
from nbdist.contract.snapshot import Array, Axis, LayoutRule, Mesh, NamedSharding
from nbdist.contract.wire import decode, encode
from nbdist.errors import AgreementError
from nbdist.notation import where_text
from nbdist.session.cells.check import busy_text, differences, differences_text, refuse_disagreement
from tests.builders.reports import running

HOSTS = {0: "h1", 1: "h2", 2: "h1", 3: "h1"}


def mesh(*, axis: str = "data", size: int = 4, kind: Any = "auto", first: int = 0) -> Mesh:
    devices = tuple(f"{first + process}:0" for process in range(size))
    axes = (Axis(name=axis, size=size, type=kind),)
    return Mesh(id=f"{axis}{size}{kind}{first}", axes=axes, devices=devices)


def array(path: str, shape: tuple[int, ...], *spec: tuple[str, ...], **of: Any) -> Array:
    sharding = NamedSharding(mesh=mesh(**of).id, spec=spec, unreduced=(), memory_kind="device")
    return Array(path=path, shape=shape, dtype="float32", nbytes=4, sharding=sharding)


W = array("w", (512, 256), ("data",), ())


def local(dtype: str, *shape: int) -> LocalArray:
    return LocalArray(dtype=dtype, shape=shape)


def names(**parts: Any) -> NamesFacts:
    """The topic `names` of one process that reads `w` whatever happens."""
    entry = NameFacts(type="ArrayImpl", certain=True, holds=True)
    changes = parts.pop("names", {"w": {}})
    meshes = {one.id: one for one in (mesh(), mesh(first=4))}
    return NamesFacts(
        names={name: structs.replace(entry, **one) for name, one in changes.items()},
        **{"arrays": {}, "meshes": meshes, "local": {}, "keys": {}, "omitted": 0, **parts},
    )


def said(by_process: list[Any], topic: str = "names") -> str:
    """What a person reads of these facts, which arrive as they are sent."""
    facts = {
        number: decode(Facts, json.loads(json.dumps(encode(Facts(**{topic: one})))))
        for number, one in enumerate(by_process)
    }
    found = differences(facts)
    return differences_text(found, HOSTS) if found else ""


def test_an_array_of_another_shape_is_named_with_process_and_host() -> None:
    good = names(arrays={"w": W})
    other = names(arrays={"w": array("w", (512, 128), ("data",), ())})
    assert said([good, other, good, good]) == (
        "w differs: f32[512, 256] P('data', None) on processes 0, 2, 3 (host h1), f32[512, 128] P('data', "
        "None) on process 1 (host h2). Nothing was run. Create it again in one %%dist cell that runs on all of "
        "them. %%dist --no-check runs it anyway."
    )


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (array("w", (512, 256), (), ("data",)), "f32[512, 256] P(None, 'data') on process 1"),
        (structs.replace(W, dtype="bfloat16"), "bf16[512, 256] P('data', None) on process 1"),
        (array("w", (512, 256), ("data",), (), first=4), "on mesh data=4 in device memory over"),
    ],
)
def test_an_array_of_another_spec_dtype_or_mesh_is_named(other: Any, text: str) -> None:
    assert text in said([names(arrays={"w": W}), names(arrays={"w": other})])


def test_a_global_array_that_is_local_deleted_or_missing_elsewhere_is_named() -> None:
    good = names(arrays={"w": W})
    assert "f32[512] of its own" in said([good, names(local={"w": local("float32", 512)})])
    assert "deleted on process 1" in said([good, names(local={"w": None})])
    deep = {"params['w']": array("params['w']", (8,), ("data",))}
    first = names(names={"params": {"type": "dict"}}, arrays=deep)
    second = names(names={"params": {"type": "dict"}})
    assert "params['w'] differs: f32[8] P('data') on process 0 (host h1), missing" in said(
        [first, second]
    )


def test_of_a_process_with_too_many_arrays_nothing_is_said_to_be_missing() -> None:
    assert said([names(arrays={"w": W}), names(omitted=3)]) == ""


def test_a_name_that_is_missing_is_named_once() -> None:
    there, missing = names(arrays={"w": W}), names(names={"w": {"type": None, "holds": False}})
    text = said([there, missing])
    assert text.startswith(
        "w differs: f32[512, 256] P('data', None) on process 0 (host h1), missing on"
    )
    assert text.count("differs") == 1
    plain = {"type": "int", "holds": False}
    assert "int on process 0" in said([names(names={"w": plain}), missing])


def test_a_name_read_perhaps_may_be_missing_unless_a_global_array_is_in_it() -> None:
    perhaps = {"certain": False}
    missing = names(names={"w": {**perhaps, "type": None, "holds": False}})
    assert said([names(names={"w": perhaps}, local={"w": local("float32", 2)}), missing]) == ""
    assert "missing on process 1" in said([names(names={"w": perhaps}, arrays={"w": W}), missing])


def test_a_name_that_no_process_has_fails_on_all_alike() -> None:
    assert said([names(names={"w": {"type": None, "holds": False}})] * 2) == ""


def test_another_type_is_named_where_arrays_or_code_are_concerned_only() -> None:
    nothing = names(names={"w": {"type": "NoneType", "holds": False}})
    held = names(local={"w": local("float32", 2)})
    assert "NoneType on process 1" in said([held, nothing])
    plain = names(names={"w": {"type": "int", "holds": False}})
    assert said([plain, nothing]) == ""
    function = names(names={"w": {"type": "function", "holds": False, "code": "1a"}})
    assert "function on process 0" in said([function, nothing])


def test_local_arrays_may_differ() -> None:
    one, other = names(local={"w": local("float32", 2)}), names(local={"w": local("int32", 3)})
    assert said([one, other]) == ""


def test_keys_and_code_that_differ_are_named() -> None:
    assert (
        "w differs: key (0, 1) on process 0 (host h1), key (0, 2) on process 1 (host h2)."
        in said([names(keys={"w": "(0, 1)"}), names(keys={"w": "(0, 2)"})])
    )
    step = [names(names={"step": {"type": "function", "code": code}}) for code in ("1a", "2b")]
    assert "code 1a on process 0 (host h1), code 2b on" in said(step)


def test_code_is_not_compared_between_versions_of_python() -> None:
    facts = {
        number: Facts(
            software={"Python": version},
            names=names(names={"step": {"type": "function", "code": version}}),
        )
        for number, version in enumerate(("3.12.1", "3.13.1"))
    }
    assert [one.about for one in differences(facts)] == ["the version of Python"]


def test_versions_flags_and_settings_are_compared_by_name() -> None:
    versions = [{"Python": "3.13.1", "jax": "0.10.2"}, {"Python": "3.13.1", "jax": "0.10.1"}]
    assert "jax differs: 0.10.2 on process 0" in said(versions, "software")
    assert said([{"jax": "0.10.2"}, {"jax": "0.10.2", "flax": "0.12"}], "software") == ""
    flags = [{"XLA_FLAGS --xla_a": "1"}, {}]
    assert "XLA_FLAGS --xla_a differs: 1 on process 0 (host h1), not set on" in said(
        flags, "variables"
    )
    x64 = [{"jax_enable_x64": "True"}, {"jax_enable_x64": "False"}]
    assert "jax_enable_x64 differs: True on process 0" in said(x64, "settings")
    assert said([{"jax_enable_x64": "True"}, None], "settings") == ""


def test_the_cells_text_is_compared() -> None:
    assert "text differs: digest 1a" in said(["1a", "2b"], "cell")


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (None, "none on process 1"),
        (mesh(axis="model"), "model=4 on process 1"),
        (mesh(kind="explicit"), "data=4 (explicit) on process 1"),
        (mesh(first=4), "data=4 (auto) over other devices on process 1"),
    ],
)
def test_meshes_in_context_are_compared(other: Any, text: str) -> None:
    assert text in said([mesh(), other], "mesh")
    assert said([mesh(), mesh()], "mesh") == ""


def test_distributions_of_keras_are_compared() -> None:
    good = DistributionFacts(
        kind="DataParallel", batch_axis="data", auto_shard=True, rules=(), mesh=mesh()
    )
    assert "none on process 1" in said([good, None], "distribution")
    assert "auto shard False on process 1" in said(
        [good, structs.replace(good, auto_shard=False)], "distribution"
    )
    rules = (LayoutRule(pattern=".*kernel", axes=(None, "model")),)
    assert "rules {'.*kernel': (None, 'model')} on process 1" in said(
        [good, structs.replace(good, rules=rules)], "distribution"
    )
    moved = structs.replace(good, mesh=mesh(first=4))
    assert "DataParallel over data=4 over other devices" in said([good, moved], "distribution")


def test_of_many_differences_some_are_written_out_and_the_rest_counted() -> None:
    one, other = ({f"jax_{n}": str(value) for n in range(8)} for value in (1, 2))
    text = said([one, other], "settings")
    assert text.count("differs") == 5
    assert "; 3 others as well." in text and "Set jax_0 to" in text


def test_of_many_hosts_their_number_is_said() -> None:
    hosts = {number: f"h{number}" for number in range(6)}
    assert where_text(range(6), hosts) == "processes 0–5 (6 hosts)"


class Answer:
    """A request of which the answer is there, or never comes."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def ready(self) -> bool:
        return self.answer is not None

    def wait(self, timeout_s: float) -> None:
        assert timeout_s <= 0.01

    def get(self) -> Any:
        return self.answer, []


class Processes:
    """Answers for processes; facts are asked for in a second round only."""

    def __init__(self, digests: dict[int, Any], facts: dict[int, Facts] | None = None) -> None:
        self.digests, self.facts = digests, facts or {}
        self.asked: list[tuple[int, Any]] = []

    def __call__(self, process_id: int, call: AskAgreement) -> Any:
        self.asked.append((process_id, call.topics))
        if call.topics is None:
            digests = self.digests[process_id]
            return Answer(None if digests is None else Agreement(digests=digests))
        return Answer(Agreement(facts=self.facts[process_id]))


def refuse(processes: Processes, targets: list[int]) -> None:
    activity = running(cell=4, line=2, source="time.sleep(60)", waiting=False)
    refuse_disagreement(
        processes, targets, "w", hosts=HOSTS, activity=lambda _: activity, timeout_s=0.01
    )


def test_equal_digests_take_one_round() -> None:
    processes = Processes({0: {"cell": "a"}, 1: {"cell": "a"}})
    refuse(processes, [0, 1])
    assert processes.asked == [(0, None), (1, None)]


@pytest.mark.parametrize(("mine", "asked"), [("a", 0), ("b", 2)])
def test_digests_that_come_another_way_are_not_asked_for(mine: str, asked: int) -> None:
    facts = {0: Facts(software={"jax": "1"}), 1: Facts(software={"jax": "1"})}
    processes = Processes({}, facts)
    refuse_disagreement(
        processes,
        [0, 1],
        "w",
        hosts=HOSTS,
        activity=lambda _: None,
        digests=lambda ids, code: {0: {"software": "a"}, 1: {"software": mine}},
        timeout_s=0.01,
    )
    assert len(processes.asked) == asked


def test_one_process_is_not_asked() -> None:
    processes = Processes({})
    refuse(processes, [1])
    assert processes.asked == []


def test_only_topics_whose_digests_differ_are_asked_for() -> None:
    digests = {0: {"cell": "a", "mesh": "x"}, 1: {"cell": "a", "mesh": "y"}}
    processes = Processes(digests, {0: Facts(), 1: Facts(mesh=mesh())})
    with pytest.raises(AgreementError, match="the mesh in context differs"):
        refuse(processes, [0, 1])
    assert processes.asked[2:] == [(0, ("mesh",)), (1, ("mesh",))]


def test_digests_that_differ_in_what_does_not_matter_pass() -> None:
    digests = {0: {"software": "a"}, 1: {"software": "b"}}
    facts = {0: Facts(software={"jax": "1"}), 1: Facts(software={"jax": "1", "flax": "2"})}
    refuse(Processes(digests, facts), [0, 1])


def test_a_process_that_does_not_answer_is_named_with_what_it_does() -> None:
    with pytest.raises(AgreementError) as raised:
        refuse(Processes({0: {"cell": "a"}, 1: None}), [0, 1])
    assert str(raised.value) == (
        "process 1 (host h2) is busy in cell 4, line 2, time.sleep(60): not compared within 0.01 s. Nothing "
        "was run. %sync waits until all are idle; %%dist --no-check queues the cell behind what runs."
    )


def test_a_busy_process_of_which_nothing_is_known_is_named_all_the_same() -> None:
    assert busy_text({1: None}, HOSTS, 5.0).startswith("process 1 (host h2) is busy: not compared")
