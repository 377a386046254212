"""Arguments of nbdist's magics: their options, the options' values, and names that live on the processes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbdist.options import MAGICS, ON_THE_PROCESSES, Parser

_MAGIC = re.compile(r"\s*(%%?)(\w+)[ \t](.*)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The text to complete at the cursor.

    Any of `matches` may replace `fragment`, the text that stands there now. `code` is for a process to complete;
    None where no process is to be asked.
    """

    fragment: str
    matches: tuple[str, ...] = ()
    code: str | None = None


def wanted(before: str) -> Wanted | None:
    """Return what may come next on a line of one of nbdist's magics.

    Args:
      before: The line up to the cursor.

    Returns:
      None where it is no such line.
    """
    found = _MAGIC.match(before)
    if not found or found[2] not in MAGICS:
        return None
    sign, name, rest = found.groups()
    parser = MAGICS[name]()
    *words, word = ["", *re.split(r"\s+", rest)]
    if choices := parser.choices(words[-1]):
        return Wanted(fragment=word, matches=_beginning(choices, word))
    if word.startswith("-") and not _code_before(parser, name, rest):
        return Wanted(fragment=word, matches=_beginning(parser.flags, word))
    if sign == "%" and name in ON_THE_PROCESSES and not parser.takes_value(words[-1]):
        whole = word if name == "dist_pull" else parser.split_options(rest)[1]
        return Wanted(fragment=word, code=whole)
    return Wanted(fragment=word)


def _beginning(known: list[str], word: str) -> tuple[str, ...]:
    return tuple(one for one in known if one.startswith(word))


def _code_before(parser: Parser, name: str, rest: str) -> bool:
    """Return whether a `-` is a minus: the text before it is code already."""
    code = parser.split_options(rest)[1] if name in ON_THE_PROCESSES - {"dist_pull"} else ""
    return bool(code) and not code.startswith("-")
