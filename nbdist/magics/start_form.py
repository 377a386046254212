"""The form in JupyterLab that writes a `%dist_init` line: what each of its fields may hold, and what is wrong.

The page runs `check` silently in the kernel (`labextension/src/controls/start_check.ts`), since before
`%load_ext nbdist` there is no channel to the page. So a form is read by the parser and the planner of a start.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence

from IPython import get_ipython
from IPython.display import JSON

from nbdist.errors import NbdistError
from nbdist.launch.model.start_options import FLAGS, StartOptions
from nbdist.magics import options
from nbdist.magics.parser import HelpShown
from nbdist.spelling import Door, through
from nbdist.starting import planned

Piece = tuple[str, str]
"""A field's name in the form, and the part of the line that it makes."""


def check(form: str) -> JSON:
    """Return what is wrong with a form, without starting anything.

    Args:
      form: JSON of a list of `Piece`, in the order of the line.

    Returns:
      `error`: the field and the text of the first error, null if a start would begin; `loaded`: whether
      `%load_ext nbdist` has been run; `choices`: by the name of an option, the values that it may have.
    """
    shell = get_ipython()
    return JSON(
        {
            "error": error_of([(str(field), str(words)) for field, words in json.loads(form)]),
            "loaded": shell is not None and "nbdist" in shell.extension_manager.loaded,
            "choices": {
                name: list(flag.argparse["choices"])
                for name, flag in FLAGS.items()
                if "choices" in flag.argparse
            },
        }
    )


def error_of(pieces: Sequence[Piece]) -> dict[str, str] | None:
    """Return the first field that is wrong, and why; None if a start would begin."""
    if not pieces:
        pieces = [("processes", "")]
    for field, words in pieces:
        if (text := _refusal(words, plan=False)) is not None:
            return {"field": field, "text": text}
    text = _refusal(_line(pieces))
    if text is None:
        return None
    # The field from which on the line is refused for this reason, at the latest the last one.
    ends = range(1, len(pieces))
    first = next((end for end in ends if _refusal(_line(pieces[:end])) == text), len(pieces))
    return {"field": pieces[first - 1][0], "text": text}


def _line(pieces: Sequence[Piece]) -> str:
    return " ".join(words for _, words in pieces)


def _refusal(line: str, *, plan: bool = True) -> str | None:
    """Return the error that `%dist_init` would raise before it starts anything; None if there is none."""
    try:
        with through(Door.MAGIC), contextlib.redirect_stdout(io.StringIO()):
            asked = options.parser("dist_init").parse(line)
            if asked.restart:
                options.refuse_beside_restart(asked)
            elif asked.attach:
                options.attach_arguments(asked)
            elif plan:
                planned(StartOptions(**options.start_arguments(asked)))
    except HelpShown:
        return None
    except NbdistError as error:
        return str(error)
    return None
