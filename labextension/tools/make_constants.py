"""Writes the constants that the view has in common with the kernel.

Run as `python labextension/tools/make_constants.py [FOLDER]`; without FOLDER it replaces the files in
`labextension/src/view/`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from nbdist.contract import page
from nbdist.contract.page import FILLS
from nbdist.contract.snapshot import VERSION

FOLDER = Path(__file__).parents[1] / "src" / "view"


def texts() -> dict[str, str]:
    """The text of each file by its path in the view; formatted as Prettier does it."""
    return {
        "model/contract.ts": _constants(),
        "paint/fills.ts": _fills(),
        "paint/fills.css": _fill_properties(),
    }


def _constants() -> str:
    files = ", ".join(f"`{name}.py`" for name in ("snapshot", "page"))
    lines = [
        "/** Constants on which kernel and view agree; made by `make types` from files in `nbdist/contract/`:",
        f" * {files}, which say what each is. */",
        "",
        f"export const VERSION = {VERSION};",
        *_exports(page),
    ]
    return "\n".join(lines) + "\n"


def _exports(module: ModuleType) -> list[str]:
    """A line for each constant of a module but the colours, in its order."""
    public = {name: value for name, value in vars(module).items() if name[0] != "_"}
    found = {name: one for name, one in public.items() if name.isupper() and name != "FILLS"}
    return [f"export const {name} = {_literal(value)};" for name, value in found.items()]


def _literal(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(
            f"{value!r} is a {type(value).__name__}; a shared constant is a str or an int, which "
            "are written alike in Python and TypeScript"
        )
    return f"'{value}'" if isinstance(value, str) else str(value)


def _fills() -> str:
    lines = ["/** Fills of pieces; made by `make types` from `nbdist/contract/page.py`. */", ""]
    lines.append("export const FILLS = {")
    for theme, fills in FILLS.items():
        lines.append(f"  {theme}: [{', '.join(map(_literal, fills))}],")
    return "\n".join([*lines, "} as const;"]) + "\n"


def _fill_properties() -> str:
    selectors = {"light": ".nbdist", "dark": ".nbdist[data-nbdist-theme='dark']"}
    lines = ["/* Fills of pieces; made by `make types` from `nbdist/contract/page.py`. */"]
    for theme, fills in FILLS.items():
        properties = (f"  --nbdist-fill-{number}: {fill};" for number, fill in enumerate(fills))
        lines += ["", f"{selectors[theme]} {{", *properties, "}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Writes into the folder named on the command line, or into the repository."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for path, text in texts().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
