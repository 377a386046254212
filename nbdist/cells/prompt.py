"""What a debugger on a process asks for, and who waits meanwhile: pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbdist.quantities import processes_text
from nbdist.spelling import command


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A line that a process waits for.

    `number` is that of the question, `text` what stands before the line, such as `"ipdb> "`, `what` why it is
    asked, such as `"at a breakpoint"`. `line` is the 1-based line of the notebook's cell, `source` its text.
    """

    number: int
    text: str
    what: str
    line: int | None
    source: str | None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Prompt | None:
        """What a process has published; None where it asks no more."""
        if content["number"] is None:
            return None
        return cls(
            number=int(content["number"]),
            text=str(content["prompt"]),
            what=str(content["what"]),
            line=content["line"],
            source=content["source"],
        )

    @property
    def place(self) -> str:
        """`at a breakpoint in line 4, y = step(x)`."""
        source = f", {self.source}" if self.source else ""
        return self.what if self.line is None else f"{self.what} in line {self.line}{source}"


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
