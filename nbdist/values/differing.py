"""Values of one name that differ between processes: refused, and said who has what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbdist.errors import ArrayError
from nbdist.quantities import array_type_text, processes_text
from nbdist.values.flow import Processes, ask_each

Offers = Mapping[int, Mapping[str, Any]]
"""What each process has described; see `nbdist.engine.values.outgoing.Outgoing.describe`."""

GONE = "nothing"


def refuse_differences(
    processes: Processes, offers: Offers, token: str, expression: str, *, timeout_s: float
) -> None:
    """Lets pass where what is on several processes is the same on all of them.

    What is compared is small: digests, which each process makes of what it has, without a collective.

    Args:
      processes: Who offers.
      offers: What they have described.
      token: Of the offers.
      expression: How the value was named.
      timeout_s: How long the processes may take.

    Raises:
      ArrayError: They differ; says where, who has what, and how to take one of them or all.
    """
    if len(offers) < 2:
        return
    if len({offer["digest"] for offer in offers.values()}) > 1:
        asked = {p: processes.send(p, "nodes", token=token) for p in offers}
        nodes = {
            p: answer["nodes"]
            for p, (answer, _) in ask_each(processes, asked, timeout_s=timeout_s).items()
        }
        path, texts = _first_difference(nodes, expression)
        raise _differs(path, texts, expression)
    _refuse_different_pieces(processes, offers, token, expression, timeout_s=timeout_s)


def _refuse_different_pieces(
    processes: Processes, offers: Offers, token: str, expression: str, *, timeout_s: float
) -> None:
    holders: dict[tuple[str, str], dict[int, int]] = {}
    for process_id, offer in offers.items():
        for path, array in offer["arrays"].items():
            for number, bounds in enumerate(array["pieces"]):
                holders.setdefault((path, str(bounds)), {})[process_id] = number
    shared = {key: held for key, held in holders.items() if len(held) > 1}
    pieces: dict[int, list[tuple[tuple[str, str], int]]] = {}
    for key, held in shared.items():
        for process_id, number in held.items():
            pieces.setdefault(process_id, []).append((key, number))
    asked = {
        p: processes.send(
            p, "digests", token=token, pieces=[(key[0], number) for key, number in its]
        )
        for p, its in pieces.items()
    }
    answers = ask_each(processes, asked, timeout_s=timeout_s)
    found: dict[tuple[str, str], dict[int, str]] = {}
    for process_id, its in pieces.items():
        for (key, _), digest in zip(its, answers[process_id][0]["digests"], strict=True):
            found.setdefault(key, {})[process_id] = digest
    for key, digests in found.items():
        if len(set(digests.values())) > 1:
            texts = _array_texts(
                processes, offers, token, key, shared[key], digests, timeout_s=timeout_s
            )
            raise _differs(key[0], texts, expression)


def _array_texts(
    processes: Processes,
    offers: Offers,
    token: str,
    key: tuple[str, str],
    held: Mapping[int, int],
    digests: Mapping[int, str],
    *,
    timeout_s: float,
) -> dict[int, str]:
    """What each process has of an array; of equal ones only one is asked."""
    path, bounds = key
    first: dict[str, int] = {}
    for process_id, digest in digests.items():
        first.setdefault(digest, process_id)
    asked = {
        p: processes.send(p, "preview", token=token, path=path, piece=held[p])
        for p in first.values()
    }
    answers = ask_each(processes, asked, timeout_s=timeout_s)
    array = next(iter(offers.values()))["arrays"][path]
    name = array["dtype"] if isinstance(array["dtype"], str) else "struct"
    part = "" if array["whole"] else f"[{_index_text(bounds)}]"
    begins = {digest: answers[p][0]["text"] for digest, p in first.items()}
    alike = len(set(begins.values())) < len(begins)
    return {
        p: f"{array_type_text(name, array['shape'])}{part} {begins[digest]}"
        + (f" (digest {digest[:7]})" if alike else "")
        for p, digest in digests.items()
    }


def _index_text(bounds: str) -> str:
    """`[[0, 2], [4, 8]]` → `0:2, 4:8`."""
    pairs = bounds.strip("[]").split("], [")
    return ", ".join(pair.replace(", ", ":") for pair in pairs)


def _first_difference(
    nodes: Mapping[int, Sequence[Sequence[str]]], expression: str
) -> tuple[str, dict[int, str]]:
    """The first place that is not the same on all, and what is there on each."""
    known: dict[int, dict[str, tuple[str, str]]] = {}
    for process_id, its in nodes.items():
        here_by_path = known[process_id] = {}
        for path, digest, text in its:
            # What only wraps an array has the array's path.
            before = here_by_path.get(path, ("", ""))[0]
            here_by_path[path] = (before + digest, text)
    paths = {path: None for its in nodes.values() for path, _, _ in its}
    for path in paths:
        here = {p: its.get(path) for p, its in known.items()}
        if len({entry and entry[0] for entry in here.values()}) > 1:
            texts = {p: entry[1] if entry else GONE for p, entry in here.items()}
            if len(set(texts.values())) == 1:
                texts = {p: f"{text} (digest {here[p][0][-7:]})" for p, text in texts.items()}  # type: ignore[index]
            return path, texts
    return expression, dict.fromkeys(nodes, "something else")


def _differs(path: str, texts: Mapping[int, str], expression: str) -> ArrayError:
    groups: dict[str, list[int]] = {}
    for process_id, text in sorted(texts.items()):
        groups.setdefault(text, []).append(process_id)
    has = [
        f"{processes_text(ids)} {'has' if len(ids) == 1 else 'have'} {text}"
        for text, ids in groups.items()
    ]
    one = min(texts)
    at = "" if path == expression else f" at {path}"
    return ArrayError(
        f"{expression!r} differs between the processes{at}: {', '.join(has)}. --on {one} (on=[{one}] in Python) "
        "brings that of one process, --each (each=True) those of all, by process id."
    )
