"""What has been found on a machine, from the plain JSON that is written there to the types that are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nbdist.contract.checkup import Checkup, OldPython, read_checkup
from nbdist.contract.wire import encode
from nbdist.errors import WireError
from nbdist.machine import checkup


@pytest.mark.parametrize("asked", [{}, {"folder": "/nowhere"}, {"folder": ""}])
def test_facts_of_this_machine_are_read_and_are_the_same_again(asked: dict[str, str]) -> None:
    plain = json.loads(json.dumps(checkup.checkup(asked)))
    found = read_checkup(plain)
    assert isinstance(found, Checkup)
    again = encode(found)
    # What other processes on this machine have left need not say of which devices it is.
    assert {**again, "leftovers": None} == {**plain, "leftovers": None}
    assert read_checkup(again) == found
    assert found.folder is None or found.folder.exists is False


def test_what_could_be_reached_is_read_with_it() -> None:
    with checkup.listen("127.0.0.1") as listener:
        reached = listener.getsockname()
        refused = ["127.0.0.1", 1]
        plain = json.loads(json.dumps(checkup.checkup({"connect": [reached, refused]})))
    found = read_checkup(plain)
    assert isinstance(found, Checkup) and found.connected is not None
    well, failed = found.connected
    assert (well.error, failed.ms) == (None, None)
    assert well.ms is not None and failed.error == plain["connected"][1]["error"]


def test_processes_and_locks_are_read_as_they_are_found(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "libtpu_lockfile").touch()
    plain = {
        **checkup.checkup({}),
        "locks": checkup.locks(tmp_path),
        "leftovers": [checkup._described(1, Path("/proc/self"))],
        "holders": [{**checkup._described(1, Path("/proc/self")), "devices": ["/dev/accel0"]}],
    }
    found = read_checkup(json.loads(json.dumps(plain)))
    assert isinstance(found, Checkup)
    assert [one.path for one in found.locks] == [str(tmp_path / "tmp" / "libtpu_lockfile")]
    assert [one.pid for one in (*found.leftovers, *found.holders)] == [1, 1]
    assert found.holders[0].devices == ("/dev/accel0",)


def test_a_python_too_old_to_tell_more_is_read_as_that() -> None:
    plain = {"python": [2, 7, 18], "executable": "/usr/bin/python"}
    found = read_checkup(plain)
    assert found == OldPython(python=(2, 7, 18), executable="/usr/bin/python")
    assert encode(found) == plain


@pytest.mark.parametrize("data", [None, [], {}, {"host": 5}, {"python": "3"}, {"time": 1.0}])
def test_anything_else_is_refused(data: object) -> None:
    with pytest.raises(WireError, match=r"^(Checkup|OldPython)[.:].* (expected|missing)"):
        read_checkup(data)
