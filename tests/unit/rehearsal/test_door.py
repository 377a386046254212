"""The room's one door: nothing is imported before a name is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nbdist import rehearsal

CODE = """
import sys
import nbdist.cli, nbdist.magics.commands, nbdist.session.session, nbdist.starting
{}
print([name for name in sys.modules if name.startswith("nbdist.rehearsal.")])
"""


def test_who_imports_the_door_imports_nothing_behind_it():
    def imported(asked):
        code = CODE.format(asked)
        return subprocess.check_output([sys.executable, "-c", code], text=True).strip()

    assert imported("") == "[]"
    assert "'nbdist.rehearsal.topology'" in imported("nbdist.cli.rehearsal.Topology")


def test_each_name_is_there_and_no_other():
    found = [getattr(rehearsal, name) for name in rehearsal.__all__]
    assert [one.__name__ for one in found] == rehearsal.__all__
    assert sorted(name for names in rehearsal._MODULES.values() for name in names) == sorted(
        rehearsal.__all__
    )
    with pytest.raises(AttributeError, match="'Speeds'"):
        _ = rehearsal.Speeds
