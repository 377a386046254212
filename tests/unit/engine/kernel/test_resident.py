"""What an engine knows of the cells of its shell."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

from IPython.core.compilerop import CachingCompiler

from nbdist.agent.agent import ENGINE
from nbdist.engine.kernel.resident import Resident


def test_the_file_of_a_cell_is_named_as_tracebacks_name_it_and_any_other_is_not() -> None:
    compiler = CachingCompiler()
    filename = compiler.cache("x = 1", number=3)
    resident: Any = SimpleNamespace(shell=SimpleNamespace(compile=compiler))
    resident.code_name = lambda name: Resident.code_name(resident, name)
    assert Resident.code_name(resident, filename) == ("Cell", "In[3]")
    assert Resident._cell_of(resident, filename) == 3
    assert Resident.code_name(resident, "/usr/lib/python/os.py") is None
    assert Resident._cell_of(resident, "/usr/lib/python/os.py") is None


def test_what_an_agent_imports_before_it_forks_is_there() -> None:
    own = [name for name in ENGINE if name.startswith("nbdist.")]
    assert [name for name in own if importlib.util.find_spec(name) is None] == []
    assert "nbdist.engine.kernel.moving_calls" in own
