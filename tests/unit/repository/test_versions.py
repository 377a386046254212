"""The README's lines *Tested with*, the versions of this environment, and what pyproject.toml promises.

What is newest changes by itself: with a newer version than the README names the tests go on, since it was tested
with what it names. An environment that is behind the README on the same Python has not run what the README names.
"""

from __future__ import annotations

import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.versions import README, ROOT, SHOWN, behind, installed, line, named, pinned

TEXT = README.read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST_PYTHON = "3.11"


def is_oldest() -> bool:
    """Whether this environment is the one of the oldest versions."""
    here = installed("oldest")
    return here["jax"] == pinned(here["python"])["jax"]


@pytest.mark.skipif(is_oldest(), reason="this is the environment of the oldest versions")
def test_this_environment_is_not_behind_the_versions_the_readme_names() -> None:
    promised, here = named("newest", TEXT), installed("newest")
    if behind({"python": promised["python"]}, here):
        pytest.skip(f"the README's newest is on Python {promised['python']}, which is not here")
    assert behind(promised, here) == {}  # else make clean, or name those


@pytest.mark.skipif(not is_oldest(), reason="this is not the environment of the oldest versions")
def test_the_oldest_environment_has_what_pip_was_held_to() -> None:
    here = installed("oldest")
    assert {name: here[name] for name in SHOWN["oldest"]}.items() <= pinned(here["python"]).items()


def test_the_readme_names_as_oldest_what_is_pinned() -> None:
    shown = {name: pinned(OLDEST_PYTHON)[name] for name in SHOWN["oldest"]}
    assert named("oldest", TEXT) == {"python": OLDEST_PYTHON, **shown}


def test_what_is_pinned_is_the_lowest_that_is_promised() -> None:
    assert PROJECT["requires-python"].startswith(f">={OLDEST_PYTHON},")
    extras = PROJECT["optional-dependencies"]
    promised = [*PROJECT["dependencies"], *extras["keras"], *extras["mcp"]]
    pins = pinned(OLDEST_PYTHON)
    lowest = {}
    for requirement in map(Requirement, promised):
        (bound,) = (one for one in requirement.specifier if one.operator == ">=")
        lowest[requirement.name] = Version(bound.version)
    assert {name: Version(pins[name]) for name in lowest} == lowest
    assert pins["jaxlib"] == pins["jax"]


@pytest.mark.parametrize("environment", list(SHOWN))
def test_a_line_is_read_as_it_is_written(environment: str) -> None:
    versions = {name: f"{i}.2.0.1" for i, name in enumerate(("python", *SHOWN[environment]))}
    assert named(environment, f"before\n{line(environment, versions)}\nafter") == versions
    with pytest.raises(ValueError, match="0 lines"):
        named(environment, "Tested with care.")


def test_only_what_is_older_than_named_is_behind() -> None:
    here = {"jax": "0.12.0.1", "numpy": "2.10.0"}
    assert behind({"jax": "0.12.0", "numpy": "2.9.9"}, here) == {}
    assert behind({"jax": "0.12.1", "numpy": "2.10.0"}, here) == {"jax": ("0.12.1", "0.12.0.1")}
