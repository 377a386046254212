"""Who waits while debuggers on processes ask for lines: a pure function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from nbdist.contract.iopub import Prompt
from nbdist.quantities import processes_text
from nbdist.spelling import command


def say_prompts(prompts: Mapping[int, Prompt], *, others: bool, attended: bool) -> str | None:
    """Who is at a prompt, and what that means for the others; None where the prompt itself says enough.

    Args:
      prompts: By process id.
      others: Whether others are still in the cell.
      attended: Whether somebody waits for the cell, who is asked.
    """
    if attended and not others and len(prompts) == 1:
        return None
    places: dict[str, list[int]] = defaultdict(list)
    for process_id, prompt in sorted(prompts.items()):
        places[prompt.place].append(process_id)
    lines = [f"{processes_text(ids)}   {where}" for where, ids in places.items()]
    first = min(prompts)
    endings = ["the others wait"] if others else []
    if not attended:
        endings.append(f"{command('debug', first)} opens the prompt")
    elif len(prompts) > 1:
        endings.append(f"asked one after another, process {first} first")
        if not others:
            endings.append(f"if jax.process_index() == {first}: breakpoint() stops that one alone")
    return "; ".join(["\n".join(lines), *endings])
