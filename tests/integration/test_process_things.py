"""What a process is beside its names, after it was repaired, replaced and resized: as before, or named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import Notice, ProcessError, SessionError
from tests.builders.endings import kill
from tests.builders.process_things import HELPERS, SETUP, THINGS

READS = f"""
READS = { ({name: thing.read for name, thing in THINGS.items()})!r}
def things():
    found = {{}}
    for name, text in READS.items():
        try:
            found[name] = repr(eval(text, globals()))
        except Exception as error:
            found[name] = f'{{type(error).__name__}}: {{error}}'
    return found
"""

SITUATIONS = ("repaired in place", "replaced", "resized")


class After(NamedTuple):
    """The things of each process after a situation, and what was said."""

    things: Mapping[int, Mapping[str, str]]
    said: str


class Told(NamedTuple):
    """The things before and after each situation."""

    unset: Mapping[str, str]
    before: Mapping[str, str]
    after: Mapping[str, After]


def run(session: Session, code: str, on: str = "all") -> None:
    """Sends a cell; one that is refused since something may not be as before is sent again."""
    try:
        session.run(code, on=on)
    except ProcessError:
        raise
    except SessionError:
        session.run(code, on=on)


def look(session: Session, done: Notice) -> After:
    run(session, "now = things()")
    return After(session.pull("now", each=True), "\n".join([str(done), *done.details]))


def set_named(session: Session, on: str) -> None:
    """What could not be brought is set again, as a person would."""
    run(session, "\n".join(one.set for one in THINGS.values() if one.named is not None), on)


@pytest.fixture(scope="module", params=((2, 4), (4, 2)), ids=("2 processes", "4 processes"))
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Told]:
    processes, then = request.param
    folder = tmp_path_factory.mktemp("things")
    (folder / "thing_helpers.py").write_text(HELPERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANG_TO_GO", "1")
        session = nbdist.start(processes, devices_per_process=1, platform="cpu")
    with session:
        session.run(f"FOLDER = {str(folder)!r}\n{SETUP}{READS}unset = things()")
        unset = session.pull("unset", on="0")
        session.run("del unset")
        session.run("\n".join(thing.set for thing in THINGS.values()))
        session.run("before = things()")
        before = session.pull("before", each=True)[1]
        session.run("del before")
        after = {}
        with pytest.raises(ProcessError):
            session.run("if jax.process_index() == 0: raise ValueError('no')")
        after["repaired in place"] = look(session, session.recover())
        kill(session, 1)
        after["replaced"] = look(session, session.recover())
        set_named(session, "1")
        after["resized"] = look(session, session.resize(then, say=[].append))
        yield Told(unset, before, after)


def test_there_are_forty_things_and_each_is_set(told: Told) -> None:
    assert len(THINGS) >= 40
    assert [name for name in THINGS if told.before[name] == told.unset[name]] == []


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("name", THINGS)
def test_it_is_as_before_or_named(told: Told, name: str, situation: str) -> None:
    after, named = told.after[situation], THINGS[name].named
    differing = [p for p, things in after.things.items() if things[name] != told.before[name]]
    if differing and situation != "repaired in place":
        assert named is not None, after.things[differing[0]][name]
        assert named in after.said
    else:
        assert not differing
