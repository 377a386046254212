"""What an engine knows of the cells of its shell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from IPython.core.compilerop import CachingCompiler

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
