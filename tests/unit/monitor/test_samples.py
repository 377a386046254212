"""What an ended process had is compared with what another had at the same time, and has now."""

from __future__ import annotations

from msgspec import structs

from nbdist.contract.snapshot import NameSamples
from nbdist.engine.probe.samples import digest_of
from nbdist.monitor.disagreements import KEPT, After, ComparedNames, Samples, apart, compared
from tests.builders.reports import report

NOTHING = ComparedNames(had={}, same=frozenset())


def samples(*after: tuple[int, dict[str, str]]) -> Samples:
    """Of a process that has reported these after these runs."""
    found = Samples()
    for run, texts in after:
        found.take(structs.replace(report(0), samples=NameSamples(run=run, texts=texts)))
    return found


def after(*reports: tuple[int, dict[str, str]]) -> After:
    return samples(*reports).after


def test_names_that_have_not_changed_are_compared() -> None:
    found = compared(
        after((3, {"a": "1", "b": "2", "c": "3"})), after((3, {"a": "1", "b": "x", "c": "3"}))
    )
    assert found == ComparedNames(
        had={"a": "1", "b": "2", "c": "3"}, same=frozenset({"a", "c"}), other=frozenset({"b"})
    )


def test_what_was_not_seen_in_whole_proves_a_difference_alone() -> None:
    found = compared(after((3, {"a": "1?", "b": "2?"})), after((3, {"a": "1?", "b": "x?"})))
    assert (found.same, found.other) == (frozenset(), {"b"})


def test_names_that_have_changed_since_are_said_to_have() -> None:
    # It has ended in cell 4, which has set `a` on the other.
    ended = after((3, {"a": "1", "b": "2"}))
    alive = after((3, {"a": "1", "b": "2"}), (4, {"a": "7", "b": "2", "new": "3"}))
    assert compared(ended, alive) == ComparedNames(
        had={"b": "2"}, same=frozenset({"b"}), changed=frozenset({"a"})
    )
    # And what was each its own stays so.
    alive = after((3, {"a": "0", "b": "2"}), (4, {"a": "7", "b": "2"}))
    assert compared(ended, alive).other == {"a"}


def test_the_last_cell_after_which_both_were_seen_counts() -> None:
    found = compared(
        after((1, {"a": "1"}), (3, {"a": "1"})), after((1, {"a": "1"}), (2, {"a": "1"}))
    )
    assert found.same == {"a"}
    found = compared(
        after((1, {"a": "1"}), (3, {"a": "2"})), after((1, {"a": "1"}), (2, {"a": "1"}))
    )
    assert (found.had, found.changed) == ({}, {"a"})


def test_names_that_differ_since_a_cell() -> None:
    reported = {
        p: after(
            (1, {"step": "4", "lr": "1", "rows": f"{p}", "me": digest_of(p)}),
            (2, {"step": f"{4 + p}", "lr": "1", "rows": f"{p}", "me": digest_of(p), "new": f"{p}"}),
        )
        for p in (0, 1)
    }
    assert apart(reported, 2) == ("new", "step")
    # `me` is new as well, and what each process is.
    assert apart({p: {2: one[2]} for p, one in reported.items()}, 2) == ("new", "rows", "step")
    assert apart({**reported, 1: {1: {"step": "4"}}}, 2) == ()  # one has not reported yet


def test_values_on_devices_are_compared_where_both_were_read() -> None:
    read, other, unread = {"key": "1/5"}, {"key": "1/6"}, {"key": "1?"}
    assert compared(after((3, read)), after((3, read))).same == {"key"}
    assert compared(after((3, read)), after((3, other))).other == {"key"}
    found = compared(after((3, read)), after((3, unread)))
    assert (found.same, found.other, found.changed) == (frozenset(),) * 3
    # Alike after cell 3; nobody has seen whether cell 4 has changed it.
    found = compared(after((3, read)), after((3, read), (4, unread)))
    assert (found.same, found.other, found.changed) == (frozenset(),) * 3
    assert compared(after((3, read)), after((3, read), (4, other))).changed == {"key"}
    assert apart({0: after((3, read)), 1: after((3, other))}, 3) == ("key",)
    assert apart({0: after((3, read)), 1: after((3, unread)), 2: after((3, read))}, 3) == ()
    assert apart({0: after((3, read)), 1: after((3, {"key": "2?"}))}, 3) == ("key",)


def test_only_what_was_seen_after_the_same_cell_is_compared() -> None:
    # The other was not looked at after cell 3, in which `a` was something else for a while.
    alive = after((1, {"a": "1"}), (4, {"a": "1"}))
    assert compared(after((3, {"a": "2"})), alive) == NOTHING
    assert compared(after((1, {"a": "2"})), alive).other == {"a"}
    assert compared(after((1, {"a": "1"}), (4, {"a": "2"})), alive).other == {"a"}


def test_the_last_cells_are_kept() -> None:
    found = samples(*((run, {"a": str(run)}) for run in range(KEPT + 3)))
    assert list(found.after) == list(range(3, KEPT + 3))


def test_who_has_reported_nothing_is_not_compared() -> None:
    assert compared({}, after((3, {"a": "1"}))) == NOTHING
    assert compared(after((3, {"a": "1"})), {}) == NOTHING


def test_a_new_process_has_nothing_of_the_one_before() -> None:
    found = samples((2, {"a": "1"}))
    found.take(structs.replace(report(0), pid=99))
    assert found.after == {}
    found.take(structs.replace(report(0), pid=99, samples=NameSamples(run=3, texts={"a": "1"})))
    assert found.after == {3: {"a": "1"}}
