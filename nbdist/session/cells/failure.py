"""The error that a failed cell raises in the notebook: the traceback of the first cause, and a notice.

`outcome_text` and `ending_text` are the short forms. A debugger for the error needs idle processes on which a cell
has failed (`refuse_in_cell`, `refuse_without_failure`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from nbdist.errors import CellTimeout, CollectiveError, Notice, ProcessError, SessionError
from nbdist.notation import capital, names_text, processes_text, seconds_text
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.outcome import (
    Outcome,
    ProcessOutcome,
    failure_lines,
    first_line,
    named_first,
    place,
    place_text,
    processes_on_hosts_text,
)
from nbdist.spelling import command, option

UNTRUE = "Numbers that this cell printed may be wrong: do not use them."

STOPPED = "StoppedBeforeStep"
"""The class of the error of a process that left before a step; see `nbdist.engine.cell.interrupts`."""

ALL_THE_SAME = "All processes must call the same functions on global arrays, in the same order."

CODES: Mapping[Outcome, str] = {
    "raised": "raised",
    "gone": "ended",
    "interrupted": "interrupted",
    "stuck": "stuck",
    "not run": "not run",
}
"""The code of the notice of a failed cell, by the outcome of the process that failed first."""


def failure(
    outcomes: Mapping[int, ProcessOutcome],
    tracebacks: Mapping[int, str],
    last_lines: Mapping[int, tuple[str, ...]],
    *,
    facts: ProcessFacts,
    done: Notice | None = None,
    said: Sequence[str] = (),
    in_vain: str | None = None,
    waiting: str | None = None,
) -> ProcessError | None:
    """Return the exception for a cell that has ended; None if it succeeded.

    Args:
      outcomes: The final outcome of each process.
      tracebacks: IPython's tracebacks, by process id.
      last_lines: The last lines that ended processes wrote, by process id.
      facts: The facts after the cell. If it left the processes out of step, it has failed even if none raised.
      done: What was done to bring them in step.
      said: What was said while that was done.
      in_vain: What processes waited for in vain, if nothing else has failed.
      waiting: What all processes waited for when somebody ended the cell.
    """
    failed = [s for s in outcomes.values() if s.outcome not in ("finished", "running")]
    if not failed:
        if facts.diverged is None:
            return None
        title = capital(f"all processes finished the cell, but {facts.diverged}.")
        do = ALL_THE_SAME if facts.differ else ""
        notice = Notice(level="bad", title=title, text="", do=do, code="diverged")
        return _error(ProcessError, notice, (), facts, done, said)
    cause = named_first(outcomes.values()) or failed[0]
    same = [s.process_id for s in failed if (s.outcome, s.error) == (cause.outcome, cause.error)]
    failures = tuple(sorted(failed, key=lambda one: one is not cause))
    others = _others(outcomes, set(same))
    if in_vain is not None and cause.outcome == "interrupted":
        notice = Notice(level="bad", title=in_vain, text="", code="in vain", details=tuple(others))
        return _error(CollectiveError, notice, failures, facts, done, said)
    traceback = tracebacks.get(cause.process_id)
    details = [] if traceback is not None else failure_lines(cause)
    if lines := last_lines.get(cause.process_id):
        details += ["its last lines:", *(f"   {line}" for line in lines)]
    details += others
    alike = cause.outcome == "raised" and len(same) == len(outcomes)
    if facts.diverged is not None and (facts.mixed or (alike and not facts.out_of_step)):
        # If all processes ended alike, no other line says why something was lost.
        details.append(f"the session was found out of step: {facts.diverged}")
    below = capital(f"{_headline(cause, same, outcomes)}{_place_of(cause, traceback)}")
    error = first_line((cause.error or "").partition(": ")[2])
    notice = Notice(
        level="bad",
        title=f"{below}: {error}" if error and traceback is not None else f"{below}.",
        text=capital("; ".join(" ".join(line.split()) for line in waiting.splitlines()) + ".")
        if waiting
        else "",
        details=tuple(details),
        code=CODES.get(cause.outcome, "raised"),
    )
    above = () if traceback is None else (_named(outcomes, same), traceback)
    return _error(ProcessError, notice, failures, facts, done, said, above, f"{below}.")


def _error(
    kind: type[ProcessError],
    notice: Notice,
    failures: tuple[ProcessOutcome, ...],
    facts: ProcessFacts,
    done: Notice | None,
    said: Sequence[str],
    above: Sequence[str] = (),
    below: str = "",
) -> ProcessError:
    """Return the error with a notice of the failure and of what it means for the variables."""
    told = with_consequences(notice, facts, done, said)
    return kind(told, failures, "\n".join(above), below)


def with_consequences(
    notice: Notice, facts: ProcessFacts, done: Notice | None, said: Sequence[str] = ()
) -> Notice:
    """Return the notice of a failed cell, with what it means for the variables and what to type.

    Args:
      notice: What happened.
      facts: The facts after the cell.
      done: What was done to bring the processes in step.
      said: What was said while that was done.
    """
    text, do, details = [notice.text], [notice.do], [*notice.details, *said]
    if facts.mixed:
        text.append(UNTRUE)
    if facts.out_of_step:
        text.append(f"The session is out of step{f': {facts.why}' if facts.why else ''}.")
        do = [facts.remedy]
    elif done is not None:
        text += [done.title, done.text]
        do.append(done.do)
        details += done.details
    if facts.apart:
        verb = "differs" if len(facts.apart) == 1 else "differ"
        text.append(f"{names_text(facts.apart)} now {verb} between the processes.")
    return replace(
        notice,
        text=" ".join(filter(None, text)),
        do=" ".join(filter(None, do)),
        details=tuple(details),
        lost=() if done is None else done.lost,
    )


def repaired_notice(facts: ProcessFacts, said: Sequence[str]) -> Notice | None:
    """Return the notice of what was done after a cell that has not failed; None if nothing was."""
    if facts.notice is None and not facts.apart:
        return None
    done = facts.notice or Notice(level="warn", title="", text="", code="apart")
    apart = with_consequences(replace(done, text=""), facts, None, said)
    text = " ".join(filter(None, (done.text, apart.text)))
    return replace(apart, text=text, lost=done.lost)


def timeout_error(
    outcomes: Mapping[int, ProcessOutcome],
    timeout_s: float,
    facts: ProcessFacts,
    said: Sequence[str],
) -> CellTimeout:
    """Return the error of a cell that reached its `timeout_s`."""
    # A process may have finished, or failed, while it was being interrupted.
    late = [s for s in outcomes.values() if s.outcome in ("interrupted", "stuck")]
    late = late or [*outcomes.values()]
    ids = [s.process_id for s in late]
    places = {_place_of(s, None) for s in late}
    where = places.pop() if len(places) == 1 else ""
    title = (
        f"{capital(processes_text(ids))} did not finish the cell within {seconds_text(timeout_s)} "
        f"({option('timeout_s')}) and {'was' if len(ids) == 1 else 'were'} interrupted{where}."
    )
    notice = Notice(
        level="bad", title=title, text="", details=tuple(_others(outcomes, set())), code="timeout"
    )
    return CellTimeout(with_consequences(notice, facts, facts.notice, said))


def outcome_text(outcomes: Mapping[int, ProcessOutcome]) -> str:
    """Return `processes 0–3 finished`, or the first cause of a failure: `process 1 raised ValueError`."""
    failed = [s for s in outcomes.values() if s.outcome != "finished"]
    if not failed:
        return f"{processes_text(outcomes)} finished"
    cause = named_first(outcomes.values()) or failed[0]
    same = [s.process_id for s in failed if (s.outcome, s.error) == (cause.outcome, cause.error)]
    return _headline(cause, same, outcomes)


def ending_text(number: int, outcomes: Mapping[int, ProcessOutcome], seconds: float) -> str:
    """Return `cell 5 ended after 3.2 s: processes 0–3 finished`."""
    return f"cell {number} ended after {seconds_text(seconds)}: {outcome_text(outcomes)}"


def _named(outcomes: Mapping[int, ProcessOutcome], ids: list[int]) -> str:
    return processes_on_hosts_text([outcomes[p] for p in ids])


def _headline(
    cause: ProcessOutcome, same: list[int], outcomes: Mapping[int, ProcessOutcome]
) -> str:
    error = cause.error or ""
    if cause.outcome == "raised":
        alike = [s.process_id for s in outcomes.values() if _raised_like(s, cause)]
        return f"{processes_text(alike)} raised {error.partition(':')[0]}"
    if cause.outcome == "gone":
        was = ("was " if len(same) == 1 else "were ") if cause.killed else ""
        return f"{_named(outcomes, same)} {was}{first_line(error)}"
    if cause.outcome == "interrupted" and error.startswith(STOPPED):
        return f"{processes_text(same)} {error.partition(': ')[2]}"
    if cause.outcome == "not run":
        return f"not run on {processes_text(same)}{f': {error}' if error else ', stopped before it began'}"
    if cause.outcome == "stuck":
        return f"{processes_text(same)} did not stop when interrupted"
    return f"{processes_text(same)} {'was' if len(same) == 1 else 'were'} interrupted"


def _place_of(cause: ProcessOutcome, traceback: str | None) -> str:
    """Return ` at line 4`, with the line's text unless the traceback shows it."""
    if cause.outcome in ("interrupted", "stuck"):
        line, source = place(cause.activity)
    else:
        line, source = cause.line, cause.source
    if line is None:
        return ""
    # The place of a process that is gone comes from its last report.
    where = "; last seen at" if cause.outcome == "gone" else " at"
    return f"{where} line {line}{f': {source}' if source and traceback is None else ''}"


def _raised_like(one: ProcessOutcome, cause: ProcessOutcome) -> bool:
    """Return whether a process raised the same class of error in the same line; the text may differ.

    An error in another line may be a mere consequence: a collective fails when the process of `cause` is missing.
    """
    classes = {(s.error or "").partition(":")[0] for s in (one, cause)}
    return one.outcome == "raised" and len(classes) == 1 and one.line == cause.line


def _others(outcomes: Mapping[int, ProcessOutcome], left_out: set[int]) -> list[str]:
    """Return one line for every other process; equal lines are merged."""
    said: dict[str, list[int]] = defaultdict(list)
    for process_id, process in outcomes.items():
        if process_id not in left_out:
            said[_ending(process)].append(process_id)
    return [f"{processes_text(ids)}   {text}" for text, ids in said.items()]


def _ending(process: ProcessOutcome) -> str:
    where = place_text(*place(process.activity))
    match process.outcome:
        case "finished":
            return "finished the cell"
        case "interrupted" if (process.error or "").startswith(STOPPED):
            return (process.error or "").partition(": ")[2]
        case "interrupted":
            waited = process.activity is None or process.activity.waiting
            return f"interrupted {'while waiting ' if waited else ''}{where}"
        case "stuck" | "running":
            return f"stuck {where}"
        case "not run":
            return (
                f"not run{f': {process.error}' if process.error else ', stopped before it began'}"
            )
        case _:
            said = first_line(process.error or "").rstrip(".")
            seen = "last seen at " if process.outcome == "gone" else ""
            at = f", {seen}line {process.line}" if process.line else ""
            return f"{said}{at}"


def refuse_in_cell(busy: Collection[int]) -> None:
    """Refuse a debugger while a process is in the middle of a cell.

    Raises:
      SessionError: A process is in a cell.
    """
    if busy:
        verb = "is" if len(busy) == 1 else "are"
        raise SessionError(
            f"{processes_text(busy)} {verb} in the middle of a cell, and not at a breakpoint. "
            f"{command('stacks_of', min(busy))} shows where, {command('interrupt')} ends it."
        )


def refuse_without_failure(failures: Mapping[int, str | None]) -> None:
    """Refuse a debugger unless a cell has failed on each process.

    Args:
      failures: The error of the last failed cell on each process, by process id; None if none has failed.

    Raises:
      SessionError: No cell has failed on one of the processes.
    """
    sound = [p for p, error in failures.items() if error is None]
    if sound:
        raise SessionError(
            f"No cell has failed on {processes_text(sound)}, so there is no error to inspect. breakpoint() in a "
            f"{command('cell')} stops a process where you want."
        )
