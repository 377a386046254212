"""Checks of Python and packages: if they are not the same everywhere, processes fail in ways that name neither."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from nbdist.launch.doctor.finding import Case, Finding
from nbdist.launch.model.framework import framework_named
from nbdist.spelling import option

SAME_AS_KERNEL = ("nbdist", "ipyparallel")


def python(case: Case) -> Iterator[Finding]:
    """Check that Python's minor version is the same: data pickled here are unpickled there."""
    here, there = case.kernel.python, case.reported.python
    if here[:2] != there[:2]:
        wanted = ".".join(map(str, here[:2]))
        yield case.error(
            f"Python {_dotted(there)} there, {_dotted(here)} in this kernel; they must agree in the first two "
            "numbers",
            where=_python(case),
            do=f"{case.there(f'command -v python{wanted}')}, then name it with {option('remote_python')}",
        )


def packages(case: Case) -> Iterator[Finding]:
    """Find packages that are missing or of another version, and one command that installs all of them."""
    if case.kernel.python[:2] != case.facts.python[:2]:
        return
    wrong, install = [], []
    for name in (*SAME_AS_KERNEL, *_of_framework(case)):
        found, wanted = case.facts.packages.get(name), _wanted(case, name)
        # A version that cannot be known is not called wrong; the processes compare what they have imported.
        if found is not None and (not found or wanted is None or _fits(name, found, wanted)):
            continue
        agreed = f"{name} {wanted}" if wanted else name
        wrong.append(
            f"{agreed} is missing" if found is None else f"{name} is {found}, not {wanted}"
        )
        install.append(_requirement(case, name, wanted))
    if wrong:
        pip = [case.facts.executable, "-m", "pip", "install", *install]
        yield case.error("; ".join(wrong), where=_python(case), do=case.there(shlex.join(pip)))


def _fits(name: str, found: str, wanted: str) -> bool:
    if name == "ipyparallel":
        # Messages between controller and engines keep their format in a series such as 9.2.
        return found.split(".")[:2] == wanted.split(".")[:2]
    return found == wanted


def _requirement(case: Case, name: str, wanted: str | None) -> str:
    """Return the requirement that pip gets there.

    The module comes from the distribution that the host has it from (a second one would overwrite its files),
    else from the one that others have it from.
    """
    source = case.facts if case.facts.packages.get(name) else None
    if source is None and wanted:
        others = (case.kernel, *case.all_facts)
        source = next((facts for facts in others if facts.packages.get(name) == wanted), None)
    distribution = source.distributions.get(name, name) if source is not None else name
    return f"{distribution}=={wanted}" if wanted else distribution


def _of_framework(case: Case) -> tuple[str, ...]:
    return framework_named(case.needs.framework).compared_with(case.needs.backend)


def _wanted(case: Case, name: str) -> str | None:
    """Return the version all should have: the kernel's if it must agree, else the one most hosts agree on."""
    here = case.kernel.packages.get(name) or None
    if name in SAME_AS_KERNEL:
        return here
    versions = Counter(version for facts in case.all_facts if (version := facts.packages.get(name)))
    # The kernel computes nothing, so it may have another version than the hosts agree on.
    if here is None or (len(versions) == 1 and here not in versions):
        return versions.most_common(1)[0][0] if versions else None
    return here


def _python(case: Case) -> str:
    return f"{case.reported.executable} on {case.examined.host}"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
