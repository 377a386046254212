"""Facts about the processes that the kernel has learned beyond their reports, and the cells that they let run.

`ProcessFacts` is kept from cell to cell. While values could be wrong, some cells may still run: those that compute
nothing (`refuse_computing`), and those that set a name in doubt again, or do not use it (`refuse_unsure`).
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from nbdist.contract.cells import Doubt
from nbdist.errors import SessionError
from nbdist.monitor import Failure, Known
from nbdist.notation import names_text
from nbdist.session.cells.outcome import ProcessOutcome, first_line
from nbdist.spelling import sentence

RECOVER = (
    "{recover} brings the processes in step, {pull} brings values here, {restart} starts afresh."
)

ELSEWHERE = (
    "These processes can be brought in step, or started afresh, only where they were started; {pull} brings "
    "values here."
)
"""The advice for processes started by another kernel or somebody else: this kernel cannot reach their agents."""

WITHOUT_REPAIR = (
    "Nothing can be started where it was: {pull} brings values here, {restart} starts afresh."
)
"""The advice for a process that is gone with its host, or with the agent that started it."""


WITHOUT_HOST = (
    "{recover} goes on when that host is back, {without} goes on without it, {pull} brings values here, "
    "{restart} starts afresh."
)
"""The advice for such a process where all can be started anew, also on fewer hosts."""


WITHOUT_CONTROLLER = (
    "Nothing can be asked of the processes any more. Those that live save their arrays on their hosts, in the "
    "folder for temporary files: process N to nbdist-rescued-PID-*/process-N.npz, which numpy.load reads. "
    "{restart} starts afresh."
)
"""The advice after the end of ipyparallel's controller, through which every request to the processes goes."""

WITHOUT_ANYTHING = "Nothing can be asked of the processes any more. {restart} starts afresh."
"""The advice after the end of that controller where processes save nothing."""


WITHOUT_PROCESSES = (
    "No process is left that has variables: {restart} starts afresh; {restore} brings back a save."
)
"""The advice after the end of all processes: none is left to take names and values from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """Facts about the processes, kept between cells and replaced as a whole.

    Attributes:
      workers: The processes that compute in step; one alone has nobody to be out of step with.
      advice: How to go on when they are out of step: a sentence with commands in braces, see `remedy`.
      lost: How processes ended, by process id.
      unreachable: Those of `lost` that have no agent any more to start others in their place.
      stuck: The processes that did not come back from an interrupt.
      silent: The hosts that do not answer, each with the Unix time since when.
      since: The cell after which the session was out of step; None while it is in step.
      why: How it is known that the session is out of step.
      proves: Whether the processes can prove that they are in step; then nothing is concluded from who was
        interrupted.
      repaired: What the last repair did, until another cell has ended.
      diverged: How the cell that has just ended left the processes out of step, whatever was done then.
      forgotten: The paths of the arrays that this cell lost.
      mixed: Whether numbers that this cell printed may be wrong.
      unsure: Names that may not hold what they held, and why: names of processes that replaced ended ones, or of
        arrays that went back to their copies when nobody had read of it yet.
      leaves_out: Whether the session can go on without one of its hosts.
      cut_off: Whether the processes cannot be asked for anything any more.
    """

    workers: frozenset[int]
    advice: str
    lost: Mapping[int, str] = field(default_factory=dict)
    unreachable: frozenset[int] = frozenset()
    stuck: frozenset[int] = frozenset()
    silent: Mapping[str, float] = field(default_factory=dict)
    since: int | None = None
    why: str | None = None
    proves: bool = False
    repaired: str | None = None
    diverged: str | None = None
    forgotten: tuple[str, ...] = ()
    mixed: bool = False
    unsure: Mapping[str, Doubt] = field(default_factory=dict)
    leaves_out: bool = False
    cut_off: bool = False

    @property
    def out_of_step(self) -> bool:
        """Return whether collectives of different processes may no longer match."""
        return self.since is not None

    @property
    def remedy(self) -> str:
        """Return the sentence that says how to go on now; offers no repair where nobody can replace a process."""
        if self.cut_off:
            return sentence(WITHOUT_CONTROLLER if self.proves else WITHOUT_ANYTHING)
        if not self.proves or self.advice == ELSEWHERE:
            return sentence(self.advice)
        if not self.workers.isdisjoint(self.unreachable):
            return sentence(WITHOUT_HOST if self.leaves_out else WITHOUT_REPAIR)
        return sentence(WITHOUT_PROCESSES if self.workers <= self.lost.keys() else self.advice)

    @property
    def why_and_advice(self) -> str:
        """Return the end of a sentence that says the session is out of step."""
        return f"{f': {self.why}' if self.why else ''}. {self.remedy}"

    def after(self, outcomes: Mapping[int, ProcessOutcome], cell: int) -> ProcessFacts:
        """Return these facts with what a cell has taught."""
        lost = {p: s.error or "gone" for p, s in outcomes.items() if s.outcome == "gone"}
        stuck = {p for p, s in outcomes.items() if s.outcome == "stuck"}
        broken = ("stuck", "gone") if self.proves else ("interrupted", "stuck", "gone")
        interrupted = any(s.outcome in broken for p, s in outcomes.items() if p in self.workers)
        back = {p for p, s in outcomes.items() if s.outcome in ("finished", "raised")}
        since = cell if interrupted and len(self.workers) > 1 and self.since is None else self.since
        return replace(
            self,
            lost={**self.lost, **lost},
            stuck=(self.stuck | stuck) - back,
            repaired=None,
            since=since,
        )

    def silent_since(self, silent: Mapping[str, float]) -> ProcessFacts:
        """Return these facts with these hosts silent."""
        return replace(self, silent=silent)

    def recovered(
        self, done: str | None = None, *, unsure: Mapping[str, Doubt] = MappingProxyType({})
    ) -> ProcessFacts:
        """Return these facts with all processes back and in step; `done` says what it took."""
        return replace(
            self,
            lost={},
            unreachable=frozenset(),
            stuck=frozenset(),
            since=None,
            why=None,
            repaired=done,
            unsure={**self.unsure, **unsure},
        )

    def known(
        self,
        outcomes: Mapping[int, ProcessOutcome] | None = None,
        *,
        repairing: bool = False,
        resizing: str | None = None,
    ) -> Known:
        """Return the facts for the live view; `outcomes` are a running cell's, the others as in `Known`."""
        still = any(s.outcome == "running" for s in (outcomes or {}).values())
        failed = {
            p: Failure(error=first_line(s.error or ""), line=s.line, source=s.source)
            for p, s in (outcomes or {}).items()
            if still and s.outcome == "raised"
        }
        gone = {p: s.error or "gone" for p, s in (outcomes or {}).items() if s.outcome == "gone"}
        return Known(
            failed=failed,
            stuck=self.stuck,
            lost={**self.lost, **gone},
            silent=self.silent,
            out_of_step=self.out_of_step,
            why=self.why,
            repairing=repairing,
            resizing=resizing,
            repaired=self.repaired,
            advice=self.remedy,
        )


HARMLESS = frozenset({"print", "len", "type", "repr", "str", "dir", "vars", "id"})
"""Functions that may be called. What walks over an array, such as `list`, computes each of its elements."""


def refuse_computing(code: str, facts: ProcessFacts) -> None:
    """Refuse a cell unless it only looks at values that are there.

    Raises:
      SessionError: The cell could compute, and its collectives could mix up values.
    """
    if not computes(code):
        return
    why = f": {facts.why}" if facts.why else ""
    raise SessionError(
        f"The processes have not been in step since cell {facts.since}{why}. A cell that computes could give "
        "wrong numbers, so it was not run; a cell that only reads (print(x), x.shape) still runs. "
        f"{facts.remedy}"
    )


def computes(code: str) -> bool:
    """Return whether a cell could use a device.

    Names, constants, printing, `del NAME` and some attributes could not; all else could. An attribute of an array
    such as `x.T` computes; `x.shape`, `x.dtype`, `x.sharding` and their like do not.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return True  # magics and shell commands among it: nobody knows what they do
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
    if isinstance(node, ast.Delete):  # makes room for the copies of a repair
        return all(isinstance(target, ast.Name) for target in node.targets)
    # `**x` walks over whatever x is.
    if isinstance(node, ast.keyword):
        return node.arg is not None
    if isinstance(node, ast.Dict):
        return None not in node.keys
    return isinstance(node, _PLAIN)


def _values_in(text: ast.expr) -> bool:
    return any(isinstance(node, ast.FormattedValue) for node in ast.walk(text))


class UnsureError(SessionError):
    """A cell was refused since it may use these names, which may not be what they were; see `refuse_unsure`."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        super().__init__(text)
        self.names = frozenset(names)


def refuse_unsure(
    code: str, facts: ProcessFacts, used: Collection[str] | None, *, said: Collection[str] = ()
) -> frozenset[str]:
    """Refuse a cell that may compute with names in doubt, unless it sets these names again.

    A cell that uses none of them, or only looks at values, may run.

    Args:
      code: The cell's code.
      facts: Facts whose `unsure` names the names in doubt.
      used: Names that the cell may read; None where that is not known.
      said: Names for which a person has just read why they are in doubt.

    Returns:
      Names that the cell sets, and does not read before.

    Raises:
      UnsureError: The cell may use what is not what it was.
    """
    safe = _set_again(code)
    left = _unsure_in(code, facts, used)
    if not left or not computes(code):
        return safe
    known = [name for name in left if name in said]
    since = f", since it may use {names_text(known)}" if known else ""
    sentences = (
        f"This cell was not run{since}.",
        not_as_before({name: why for name, why in left.items() if name not in said}),
        "To go on as it is, run the cell once more.",
    )
    raise UnsureError(" ".join(filter(None, sentences)), left)


def unsure_text(
    code: str, facts: ProcessFacts, used: Collection[str] | None, *, said: Collection[str] = ()
) -> str | None:
    """Return a line about names in doubt that a cell looks at; None where there is nothing more to say.

    Arguments as for `refuse_unsure`, which lets such a cell pass.
    """
    found = _unsure_in(code, facts, used)
    return not_as_before({n: why for n, why in found.items() if n not in said}) or None


def _unsure_in(code: str, facts: ProcessFacts, used: Collection[str] | None) -> dict[str, Doubt]:
    safe = _set_again(code)
    return {
        name: why
        for name, why in facts.unsure.items()
        if name not in safe and (used is None or name in used or not name.isidentifier())
    }


def not_as_before(unsure: Mapping[str, Doubt]) -> str:
    """Return where names in doubt are from, and what a person may have to set: two sentences for each reason."""
    reasons: dict[Doubt, list[str]] = {}
    for name, why in unsure.items():
        reasons.setdefault(why, []).append(name)
    return " ".join(_because(names, why) for why, names in reasons.items())


def _because(names: Sequence[str], why: Doubt) -> str:
    said = names_text(names)
    be, was, it = ("is", "was", "it") if len(names) == 1 else ("are", "were", "them")
    if why.kind == "copied":
        own = f"If each process should have its own, set {it} again."
        return f"{said} {was} copied from process {why.of}. {own}"
    if why.kind == "unlike":
        return f"{said} {be} not as on process {why.of} everywhere. Set {it} again on all."
    if why.kind == "newer":
        has = "has" if len(names) == 1 else "have"
        return (
            f"{said} {has} changed since cell {why.of}, and did not go back to it. Set {it} again."
        )
    then = f"as {'it' if len(names) == 1 else 'they'} {was} after cell {why.of}"
    return f"{said} {be} {then}. Set what counts steps to match."


def _set_again(code: str) -> frozenset[str]:
    """Return the names that a cell sets and has not read before, unlike `x` in `x = x + 1`."""
    return _bound(code) - _read_first(code)


def _bound(code: str) -> frozenset[str]:
    """Return the names that a cell sets for sure; none for code that is not Python alone."""
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
