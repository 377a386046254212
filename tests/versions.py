"""The versions that the tests run with, and the README's lines of them: `python -m tests.versions ENVIRONMENT`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping
from importlib import metadata

from packaging.requirements import Requirement
from packaging.version import Version

from tests.places import ROOT

README = ROOT / "README.md"
PINS = ROOT / "tests" / "oldest.txt"

NAMES = {
    "jax": "JAX",
    "numpy": "NumPy",
    "keras": "Keras",
    "flax": "Flax",
    "tensorflow": "TensorFlow",
    "ipyparallel": "ipyparallel",
}
SHOWN = {
    "newest": ("jax", "numpy", "keras", "flax", "ipyparallel"),
    "tensorflow": ("tensorflow", "keras"),
    "oldest": ("jax", "numpy", "keras", "ipyparallel"),
}
"""What the README names of each environment, beside Python."""
LINES = {
    "newest": "Tested with Python {python}, {packages}.",
    "tensorflow": "Tested with {packages}, on Python {python}.",
    "oldest": "Tested with the oldest: Python {python}, {packages}.",
}


def installed(environment: str) -> dict[str, str]:
    """The versions of this environment: `python` (major and minor) and those of `SHOWN`."""
    python = ".".join(map(str, sys.version_info[:2]))
    return {"python": python, **{name: metadata.version(name) for name in SHOWN[environment]}}


def line(environment: str, versions: Mapping[str, str]) -> str:
    """The README's line of one environment."""
    parts = [f"{NAMES[name]} {versions[name]}" for name in SHOWN[environment]]
    packages = f"{', '.join(parts[:-1])} and {parts[-1]}"
    return LINES[environment].format(python=versions["python"], packages=packages)


def named(environment: str, text: str) -> dict[str, str]:
    """The versions that a text names; as `installed`.

    Raises:
      ValueError: It has no such line, or several.
    """
    names = ("python", *SHOWN[environment])
    pattern = re.escape(line(environment, {name: f"<{name}>" for name in names}))
    for name in names:
        pattern = pattern.replace(re.escape(f"<{name}>"), rf"(?P<{name}>\d[\w.]*?)")
    found = list(re.finditer(rf"^{pattern}$", text, re.M))
    if len(found) != 1:
        raise ValueError(f"{len(found)} lines like {pattern!r}")
    return found[0].groupdict()


def pinned(python: str) -> dict[str, str]:
    """The versions of `tests/oldest.txt` that count for a Python such as `3.11`."""
    lines = [text for text in PINS.read_text(encoding="utf-8").splitlines() if text[:1].isalpha()]
    requirements = [Requirement(text) for text in lines]
    return {
        each.name: str(each.specifier).removeprefix("==")
        for each in requirements
        if each.marker is None or each.marker.evaluate({"python_version": python})
    }


def behind(promised: Mapping[str, str], here: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What is named and here in an older version: the name, what is promised, and what is here."""
    return {
        name: (version, here[name])
        for name, version in promised.items()
        if Version(here[name]) < Version(version)
    }


def main() -> None:
    """Prints what this environment has; with `--write` the README says so from then on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", choices=SHOWN)
    parser.add_argument("--write", action="store_true", help="put the line into the README")
    arguments = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    here = line(arguments.environment, installed(arguments.environment))
    there = line(arguments.environment, named(arguments.environment, text))
    print(here)
    if here != there and arguments.write:
        README.write_text(text.replace(there, here), encoding="utf-8")
    elif here != there:
        print(f"  The README: {there}\n  make versions WRITE=--write puts this run's there.")


if __name__ == "__main__":
    main()
