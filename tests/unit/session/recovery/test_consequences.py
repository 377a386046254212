"""Consequences of a repair, a replacement or a change of size for a person's variables."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from nbdist.contract.calls.namespace import LeftOut, NamespaceArray
from nbdist.contract.cells import Doubt
from nbdist.errors import Notice
from nbdist.session.cells.doubt import nowhere
from nbdist.session.recovery.consequences import (
    MOST_REASONS,
    MOST_SENTENCES,
    MOST_THINGS,
    Consequences,
    RolledBack,
)
from nbdist.session.values.namespace import DRAWN, Brought

KILLED = "killed by signal 9 (SIGKILL)"
TITLE = "Process 1 was replaced in 1.2 s."
AGE = "after cell 5, 12 s ago"
ONE = Brought(source=0, names=("a", "b"))
HAS = f"process 1 (before: {KILLED}) has the 2 names of process 0"
KEPT = "All variables are kept."
UNCHANGED = "Everything else is unchanged."
MORE = "%dist_why says more."
LOCK = LeftOut(name="lock", type="lock", why="no process can send it")


def array(key: str) -> NamespaceArray:
    """An array of eight numbers, of which a part is on no process."""
    return NamespaceArray(key=key, dtype="float32", shape=(8,), spans=True, origin=None, pieces=())


def replaced(**facts: Any) -> Consequences:
    """Process 1 was killed, and another has taken its place; `facts` are those of what was brought to it."""
    return Consequences(ended={1: KILLED}, brought={1: replace(ONE, **facts)})


def told(means: Consequences, *cells: int) -> Notice:
    """Return the notice, where these cells assigned what is lost."""
    return means.notice(TITLE, code="repaired", made_in=lambda paths: cells if paths else ())


def doubted(kind: Any, of: int, *names: str) -> Consequences:
    return Consequences(doubted=dict.fromkeys(names, Doubt(kind=kind, of=of)))


Said = tuple[Consequences, str, str, tuple[str, ...]]

LOSSES: dict[str, Said] = {
    "with a process": (
        Consequences(lost=["w"], in_part={"w": "f32[8]"}, ended={1: KILLED}),
        f"Lost with process 1: w. {UNCHANGED}",
        "Create w again: cell 3 assigns it.",
        ("with a shard on no other process: w (f32[8])",),
    ),
    "with processes, of which one type is unknown": (
        Consequences(
            lost=["w", "v"], in_part={"v": "f32[8]", "w": ""}, ended={1: KILLED, 2: KILLED}
        ),
        f"Lost with processes 1, 2: v, w. {UNCHANGED}",
        "Create v, w again: cell 3 assigns them.",
        ("with shards on no other process: v (f32[8]), w",),
    ),
    "not computed on all": (
        Consequences(lost=["y"]),
        f"Lost, because not all processes have computed it: y. {UNCHANGED}",
        "Create y again: cell 3 assigns it.",
        (),
    ),
    "several not computed on all": (
        Consequences(lost=["z", "y"]),
        f"Lost, because not all processes have computed them: y, z. {UNCHANGED}",
        "Create y, z again: cell 3 assigns them.",
        (),
    ),
    "not read": (
        Consequences(lost=["y"], unread={"y": "no memory is left", "kept": "rolled back since"}),
        f"Lost, because a process could not read the values: y. {UNCHANGED}",
        "Create y again: cell 3 assigns it.",
        ("y: no memory is left",),
    ),
    "each for its own reason": (
        Consequences(
            lost=["x", "y", "z"],
            in_part={"x": "f32[8]"},
            ended={1: KILLED},
            unread={"x": "it ended", "z": "no memory is left"},
        ),
        "Lost with process 1: x. Lost, because not all processes have computed it: y. "
        "Lost, because a process could not read the values: z.",
        f"Create x, y, z again: cell 3 assigns them. {MORE}",
        (UNCHANGED, "with a shard on no other process: x (f32[8])", "z: no memory is left"),
    ),
}


@pytest.mark.parametrize(("means", "text", "do", "details"), LOSSES.values(), ids=LOSSES)
def test_a_loss_is_told_with_its_reason_and_the_cell_that_assigns_the_array(
    means: Consequences, text: str, do: str, details: tuple[str, ...]
) -> None:
    notice = told(means, 3)
    assert (notice.text, notice.do, notice.details) == (text, do, details)
    assert notice.lost == tuple(sorted(means.lost))


@pytest.mark.parametrize(
    ("cells", "do"),
    [
        ((), "Create w again."),
        ((3,), "Create w again: cell 3 assigns it."),
        ((7, 2), "Create w again: cells 2, 7 assign it."),
    ],
)
def test_cells_are_named_only_where_they_are_known(cells: tuple[int, ...], do: str) -> None:
    means = Consequences(lost=["w"])
    assert told(means, *cells).do == do
    assert means.notice(TITLE, code="lost", made_in=nowhere).do == "Create w again."


def test_cells_are_looked_up_for_all_lost_arrays_together() -> None:
    asked: list[list[str]] = []

    def made_in(paths: Collection[str]) -> Collection[int]:
        asked.append(sorted(paths))
        return (4,)

    Consequences(lost=["w", "y"], in_part={"w": ""}).notice(TITLE, code="lost", made_in=made_in)
    assert asked == [["w", "y"]]


def test_thousands_of_arrays_are_counted_and_not_listed() -> None:
    paths = [f"p{k:04}" for k in range(2000)]
    notice = told(Consequences(lost=paths, unread=dict.fromkeys(paths, "no memory is left")), 3)
    assert len(str(notice)) < 300
    assert len(notice.details) == 1 + MOST_REASONS
    assert notice.lost == tuple(paths)


UNNAMED = "2 arrays that no name leads to (f32[8], f32[8])"


@pytest.mark.parametrize("lost", [[], ["w"]])
def test_lost_arrays_that_no_name_leads_to_are_counted_with_their_types(lost: list[str]) -> None:
    means = replace(
        replaced(lost=(array("w"), array("@1"), array("@2"))),
        lost=lost,
        in_part=dict.fromkeys(lost, "f32[8]"),
    )
    with_name = "Lost with process 1: w. " if lost else ""
    assert told(means).text == f"{with_name}Lost with process 1: {UNNAMED}."
    assert not means.rest_is_whole
    assert told(means).lost == tuple(lost), "these are paths"


ROLLED_BACK: dict[str, Said] = {
    "older": (
        Consequences(returned=RolledBack(paths=frozenset({"w", "b"}), older=True, age=AGE)),
        f"Restored as they were {AGE}: b, w.",
        "Set your step counters to match.",
        ("everything else is as it is now, also what counts steps",),
    ),
    "older than others": (
        Consequences(
            returned=RolledBack(
                paths=frozenset({"w"}), older=True, newer=("average (through a cell)",), age=AGE
            )
        ),
        f"Restored as they were {AGE}: w. Newer than that: average (through a cell).",
        "Set your step counters to match. Set average (through a cell) again.",
        ("everything else is as it is now, also what counts steps",),
    ),
    "as new": (
        Consequences(returned=RolledBack(paths=frozenset({"w", "b"}), age=AGE)),
        KEPT,
        "",
        (f"from the copies made {AGE}, not changed since: b, w",),
    ),
    "unusable": (
        Consequences(lost=["w"], returned=RolledBack(age=AGE, why_not="process 2 has none")),
        f"Lost, because not all processes have computed it: w. {UNCHANGED}",
        "Create w again.",
        (f"the copies made {AGE} could not be used: process 2 has none",),
    ),
    "none": (Consequences(returned=RolledBack(age=AGE)), KEPT, "", ()),
}


@pytest.mark.parametrize(("means", "text", "do", "details"), ROLLED_BACK.values(), ids=ROLLED_BACK)
def test_what_copies_have_brought_back_is_told_as_how_old_it_is(
    means: Consequences, text: str, do: str, details: tuple[str, ...]
) -> None:
    notice = told(means)
    assert (notice.text, notice.do, notice.details) == (text, do, details)


DOUBTS: dict[str, Said] = {
    "copied": (
        doubted("copied", 0, "k", "x"),
        "k, x were copied from process 0.",
        "Set k, x again if each process should have its own.",
        (),
    ),
    "copied, one": (
        doubted("copied", 0, "k"),
        "k was copied from process 0.",
        "Set k again if each process should have its own.",
        (),
    ),
    "unlike": (
        doubted("unlike", 2, "helpers.SCALE"),
        "helpers.SCALE is not the same everywhere as on process 2.",
        "Set helpers.SCALE again on all.",
        (),
    ),
    "newer": (
        doubted("newer", 5, "average", "best"),
        "average, best have changed since cell 5, and did not go back to it.",
        "Set average, best again.",
        (),
    ),
    "older": (
        doubted("older", 5, "w"),
        "w is as it was after cell 5.",
        "Set your step counters to match.",
        (),
    ),
}


@pytest.mark.parametrize(("means", "text", "do", "details"), DOUBTS.values(), ids=DOUBTS)
def test_a_doubt_is_told_with_its_reason_and_what_may_have_to_be_set(
    means: Consequences, text: str, do: str, details: tuple[str, ...]
) -> None:
    notice = told(means)
    assert (notice.text, notice.do, notice.details) == (text, do, details)
    assert not means.rest_is_whole


DIFFERENCES: dict[str, Said] = {
    "left out": (
        replaced(left_out=(LOCK,)),
        "Not brought to process 1: lock.",
        "Set lock again there.",
        ("lock (lock): no process can send it",),
    ),
    "things unlike": (
        replaced(unlike={"umask": "", "patched numpy.sinc": "cannot be pickled"}),
        "Not as on process 0: patched numpy.sinc, umask.",
        "Set those that your cells need again on process 1.",
        ("patched numpy.sinc: cannot be pickled",),
    ),
    "each its own": (
        replaced(each_own=("umask", "helpers.RANK")),
        "Not the same on all processes, so not set on process 1: helpers.RANK, umask.",
        "",
        (),
    ),
    "each its own stream": (
        replaced(each_own=DRAWN),
        "Not the same on all processes: NumPy's random state, Python's random state.",
        "Seed NumPy's random state, Python's random state again on process 1.",
        (),
    ),
    "changed": (
        replaced(changed=("step",)),
        "Set by the last cell, on process 1 as on process 0: step.",
        "",
        (),
    ),
    "elsewhere": (
        replaced(elsewhere={"rows": 2}),
        "Not on process 0, so not on process 1: rows.",
        "",
        (),
    ),
    "stale": (
        replace(replaced(), stale={"it (through a tuple_iterator)"}),
        "Arrays from before the repair are still in it (through a tuple_iterator).",
        "Create it (through a tuple_iterator) again.",
        (),
    ),
    "hooks": (
        replaced(hooks=("seed(): ValueError: no", "seed(): ValueError: no")),
        f"A function with @nbdist.on_recover has failed. {KEPT}",
        "",
        ("seed(): ValueError: no",),
    ),
    "empty": (
        replaced(empty=("data", "@7")),
        "Nothing more was lost.",
        "",
        (),
    ),
}
FACTS = {"empty": ("without values, as before: data",)}


@pytest.mark.parametrize("case", DIFFERENCES)
def test_what_a_new_process_does_not_have_as_before_is_told_with_what_to_set(case: str) -> None:
    means, text, do, details = DIFFERENCES[case]
    notice = told(means)
    assert (notice.text, notice.do) == (text, do)
    assert notice.details == (*details, HAS, *FACTS.get(case, ()))
    assert means.rest_is_whole == (case in ("hooks", "empty"))


def test_what_differs_on_a_new_process_is_not_called_doubtful_as_well() -> None:
    unsure = {"jax_enable_x64": Doubt(kind="unlike", of=0)}
    means = replace(replaced(unlike={"jax_enable_x64": ""}), doubted=unsure)
    assert told(means).text == "Not as on process 0: jax_enable_x64."


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"nbytes": 2048}, ("process 1 has the 2 names of process 0, and 2 KB of arrays",)),
        ({"numbered": ("me",)}, ("me: the number of the process, on each its own",)),
        ({"set_again": ("rows",)}, ("rows: set again by functions with @nbdist.on_recover",)),
    ],
)
def test_what_is_right_stands_in_the_details_alone(
    facts: dict[str, Any], said: tuple[str, ...]
) -> None:
    notice = told(Consequences(brought={1: replace(ONE, **facts)}))
    assert (notice.text, notice.do) == (KEPT, "")
    assert notice.details[-1:] == said


def test_processes_that_ended_and_came_back_alike_share_a_line() -> None:
    ends = {1: KILLED, 2: KILLED, 3: "ended with exit code 3"}
    notice = told(Consequences(ended=ends, brought=dict.fromkeys(ends, ONE)))
    assert notice.details == (
        f"processes 1, 2 (before: {KILLED}) each have the 2 names of process 0",
        "process 3 (before: ended with exit code 3) has the 2 names of process 0",
    )


def test_where_nothing_is_different_one_sentence_says_so() -> None:
    notice = told(Consequences())
    assert notice == Notice(level="warn", title=TITLE, text=KEPT, code="repaired")


def test_two_lines_hold_three_sentences_each_and_the_details_the_rest() -> None:
    full = replace(
        replaced(left_out=(LOCK,), changed=("step",), unlike={"umask": ""}, each_own=(DRAWN[0],)),
        lost=["y"],
        returned=RolledBack(paths=frozenset({"w"}), older=True, newer=("v",), age=AGE),
        stale={"it"},
    )
    notice = told(full)
    alone = Consequences(lost=full.lost, returned=full.returned)
    assert notice.text == told(alone).text
    assert notice.text.count(".") == MOST_SENTENCES
    assert notice.do == f"{told(alone).do} {MORE}"
    for more in ("Not brought to process 1: lock.", "Set lock again there.", "Create it again."):
        assert more in notice.details
    assert len(str(notice).splitlines()) == 3
    assert notice.details[-1] == HAS


def test_many_names_and_things_make_no_long_lines() -> None:
    names = tuple(f"n{k}" for k in range(500))
    one = replaced(unlike=dict.fromkeys((*names, "patched numpy.sinc"), "no"), changed=names)
    unsure = {name.upper(): Doubt(kind="copied", of=0) for name in names}
    notice = told(replace(one, doubted=unsure))
    assert len(str(notice)) < 500
    every, first, *_ = notice.details
    assert len(notice.details) == MOST_THINGS + 2
    assert every.startswith("not as on process 0: patched numpy.sinc, n0")
    assert first == "patched numpy.sinc: no", "what changes numbers comes first"


WHYS = {
    "w": "with process 1 in cell 4: a shard was on no other process",
    "x": "in cell 4: not all processes have computed it",
    "y": "in cell 4: a process could not read its values",
}


def test_each_lost_array_has_a_sentence_of_its_own_for_who_uses_it() -> None:
    means = Consequences(
        lost=["y", "x", "w"], in_part={"w": "f32[8]"}, ended={1: KILLED}, unread={"y": "no"}
    )
    assign = {"w": (2,), "x": (), "y": (3,)}
    again = {
        "w": "Create w again: cell 2 assigns it.",
        "x": "Create x again.",
        "y": "Create y again: cell 3 assigns it.",
    }
    assert means.lost_texts(4, lambda paths: [n for p in paths for n in assign[p]]) == {
        path: f"{path} was lost {why}. {again[path]}" for path, why in WHYS.items()
    }
    assert Consequences().lost_texts(4, nowhere) == {}
