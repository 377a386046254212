"""Which cells may still run while values could be wrong.

A cell may run out of step if it computes nothing (`refuse_computing`). It may run beside names in doubt if it does
not use them, or sets them again (`refuse_unsure`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from nbdist.contract.cells import Doubt
from nbdist.errors import Notice, SessionError
from nbdist.notation import names_text
from nbdist.session.cells.facts import ProcessFacts

HARMLESS = frozenset({"print", "len", "type", "repr", "str", "dir", "vars", "id"})
"""Functions that may be called. One that iterates over an array, such as `list`, computes each of its elements."""


def refuse_computing(code: str, facts: ProcessFacts) -> None:
    """Refuse a cell unless it only looks at values that are there.

    Raises:
      SessionError: The cell could compute, and its collectives could mix up values.
    """
    if not computes(code):
        return
    why = f": {facts.why}" if facts.why else ""
    raise SessionError(
        Notice(
            level="bad",
            title=f"This cell was not run: the processes have not been in step since cell {facts.since}{why}.",
            text=(
                "A cell that computes could give wrong numbers; one that only reads (print(x)) still runs."
            ),
            do=facts.remedy,
            code="out of step",
        )
    )


def computes(code: str) -> bool:
    """Return whether a cell could use a device.

    Names, constants, printing, `del NAME` and some attributes cannot; everything else could. An array's `x.T`
    computes; `x.shape`, `x.dtype`, `x.sharding` and the others in `METADATA` do not.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True  # not Python alone: magics and shell commands may do anything
    return not all(map(_is_harmless, ast.walk(tree)))


METADATA = frozenset({"shape", "dtype", "sharding", "spec", "mesh", "ndim", "size", "nbytes"})
"""Attributes of an array that compute nothing."""

_PLAIN = (
    *(ast.Module, ast.Expr, ast.Name, ast.Constant, ast.Load, ast.JoinedStr),
    *(ast.Tuple, ast.List, ast.Pass, ast.Del),
)


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in METADATA
    if isinstance(node, ast.FormattedValue):  # `f"{x:{width}}"` asks x for a text of its own
        return node.format_spec is None or not _values_in(node.format_spec)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in HARMLESS
    if isinstance(node, ast.Delete):  # allowed, since it makes room for the copies of a repair
        return all(isinstance(target, ast.Name) for target in node.targets)
    # `**x` iterates over `x`, which may be an array.
    if isinstance(node, ast.keyword):
        return node.arg is not None
    if isinstance(node, ast.Dict):
        return None not in node.keys
    return isinstance(node, _PLAIN)


def _values_in(text: ast.expr) -> bool:
    return any(isinstance(node, ast.FormattedValue) for node in ast.walk(text))


class UnsureError(SessionError):
    """A cell was refused since it may use names in doubt; see `refuse_unsure`. `names` are these names."""

    def __init__(self, notice: Notice, names: Collection[str]) -> None:
        super().__init__(notice)
        self.names = frozenset(names)


def refuse_unsure(
    code: str, facts: ProcessFacts, used: Collection[str] | None, *, said: Collection[str] = ()
) -> frozenset[str]:
    """Refuse a cell that may compute with names in doubt, unless it sets these names again.

    A cell that uses none of them, or only looks at values, may run.

    Args:
      code: The cell's code.
      facts: The facts about the processes; `unsure` has the names in doubt.
      used: Names that the cell may read; None if unknown.
      said: Names of which a person has just read why they are in doubt.

    Returns:
      Names that the cell sets without reading them before.

    Raises:
      UnsureError: The cell may use a name in doubt.
    """
    safe = _set_again(code)
    left = _unsure_in(code, facts, used)
    if not left or not computes(code):
        return safe
    reasons = because({name: why for name, why in left.items() if name not in said})
    notice = Notice(
        level="bad",
        title=f"This cell was not run: it may use {names_text(left)}.",
        text=" ".join(what for what, _ in reasons),
        do=" ".join([*(do for _, do in reasons), "To use what is there, run the cell once more."]),
        code="in doubt",
    )
    raise UnsureError(notice, left)


def unsure_text(
    code: str, facts: ProcessFacts, used: Collection[str] | None, *, said: Collection[str] = ()
) -> str | None:
    """Return a line about names in doubt that a cell only looks at; None if there are none to report.

    Arguments as for `refuse_unsure`, which lets such a cell pass.
    """
    found = _unsure_in(code, facts, used)
    return doubt_text({n: why for n, why in found.items() if n not in said}) or None


def _unsure_in(code: str, facts: ProcessFacts, used: Collection[str] | None) -> dict[str, Doubt]:
    safe = _set_again(code)
    return {
        name: why
        for name, why in facts.unsure.items()
        if name not in safe and (used is None or name in used or not name.isidentifier())
    }


def doubt_text(unsure: Mapping[str, Doubt]) -> str:
    """Return why names are in doubt, and what a person may have to set: two sentences for each reason."""
    return " ".join(f"{what} {do}" for what, do in because(unsure))


def because(unsure: Mapping[str, Doubt]) -> list[tuple[str, str]]:
    """Return for each reason why names are in doubt a sentence that says it, and one that says what to set."""
    reasons: dict[Doubt, list[str]] = {}
    for name, why in unsure.items():
        reasons.setdefault(why, []).append(name)
    return [_because(names, why) for why, names in reasons.items()]


def _because(names: Sequence[str], why: Doubt) -> tuple[str, str]:
    said = names_text(names)
    be, was = ("is", "was") if len(names) == 1 else ("are", "were")
    if why.kind == "copied":
        return (
            f"{said} {was} copied from process {why.of}.",
            f"Set {said} again if each process should have its own.",
        )
    if why.kind == "unlike":
        return (
            f"{said} {be} not the same everywhere as on process {why.of}.",
            f"Set {said} again on all.",
        )
    if why.kind == "newer":
        has = "has" if len(names) == 1 else "have"
        return (
            f"{said} {has} changed since cell {why.of}, and did not go back to it.",
            f"Set {said} again.",
        )
    then = f"as {'it' if len(names) == 1 else 'they'} {was} after cell {why.of}"
    return f"{said} {be} {then}.", "Set your step counters to match."


MadeIn = Callable[[Collection[str]], Collection[int]]
"""Returns the numbers of the cells that last assigned the names with which these paths begin, if known."""


def nowhere(paths: Collection[str]) -> Collection[int]:
    """Return no cell."""
    return ()


def root_name(path: str) -> str:
    """Return the name with which a path begins: `params` of `params['dense'].kernel`."""
    return re.split(r"[.\[ ]", path, maxsplit=1)[0]


def assigned(code: str) -> frozenset[str]:
    """Return the names that a cell assigns in some statement of its own, whether or not that statement runs."""
    return frozenset(
        node.id
        for statement in _statements(code)
        for node in _own_nodes(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement's nodes, without the insides of functions, classes and comprehensions."""
    if isinstance(node, _SCOPES):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _own_nodes(child)


def _set_again(code: str) -> frozenset[str]:
    """Return the names that a cell sets and has not read before, unlike `x` in `x = x + 1`."""
    return _bound(code) - _read_first(code)


def _bound(code: str) -> frozenset[str]:
    """Return the names that a cell certainly sets; none for code that is not Python alone."""
    return frozenset(
        target.id
        for statement in _statements(code)
        for target in _targets(statement)
        if isinstance(target, ast.Name)
    )


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return [one for target in statement.targets for one in _parts(target)]
    if isinstance(statement, ast.Delete):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign) and statement.value else []


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        return [one for part in target.elts for one in _parts(part)]
    return [target]


def _read_first(code: str) -> frozenset[str]:
    """Return the names that a cell reads before the statement that sets them has ended."""
    found: set[str] = set()
    bound: set[str] = set()
    for statement in _statements(code):
        read = {
            node.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        found |= read - bound
        bound |= {t.id for t in _targets(statement) if isinstance(t, ast.Name)}
    return frozenset(found)


def _statements(code: str) -> list[ast.stmt]:
    try:
        return ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
