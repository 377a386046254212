"""The stacks of processes as text; equal ones stand once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdist.contract.questions import NativeStacks, Threads, ThreadStack
from nbdist.quantities import count_text, processes_text
from nbdist.spelling import command


def stacks_text(found: Mapping[int, Threads], missing: Sequence[int], *, whole: bool) -> str:
    """Return the threads of each process, outermost call first.

    Args:
      found: The threads, by process id.
      missing: Processes that have not answered.
      whole: Show all threads; else the main thread, and how many others there are.
    """
    groups: dict[str, list[int]] = {}
    for process_id, threads in sorted(found.items()):
        groups.setdefault(_threads_text(threads.threads, whole=whole), []).append(process_id)
    parts = [f"{processes_text(ids)}\n{text}" for text, ids in groups.items()]
    return "\n\n".join([*parts, *_missing_text(missing)])


def native_text(found: Mapping[int, NativeStacks], missing: Sequence[int]) -> str:
    """Return the native stack that py-spy has read of each process, or why it could not."""
    groups: dict[str, list[int]] = {}
    for process_id, answer in sorted(found.items()):
        text = answer.text or f"  no native stack: {answer.error}"
        groups.setdefault(text, []).append(process_id)
    parts = [f"{processes_text(ids)}\n{text}" for text, ids in groups.items()]
    return "\n\n".join([*parts, *_missing_text(missing)])


def _missing_text(missing: Sequence[int]) -> list[str]:
    if not missing:
        return []
    return [
        f"{processes_text(missing)}   no answer: the interpreter is busy in one long call, or the process or "
        "its host is stopped"
    ]


def _threads_text(threads: Sequence[ThreadStack], *, whole: bool) -> str:
    shown = threads if whole else threads[:1]
    lines = []
    for thread in shown:
        lines += [f"  {thread.name}", *(f"    {line}" for line in thread.lines)]
    if len(threads) > len(shown):
        others = count_text(len(threads) - len(shown), "other thread")
        lines.append(f"  and {others}: {command('stacks')} with a process shows them")
    return "\n".join(lines)
