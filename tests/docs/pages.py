"""The pages of the documentation as tests read them: what is typed, and what is said to be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TYPED, SHOWN = "ipython3", "text"
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
AT_PROMPT = re.compile(r"<!-- at the prompt: (.+) -->")
ENVIRONMENT = re.compile(r"<!-- environment: (\w+) -->")
FENCE = re.compile(r"```(?P<language>\w*)$")
ANYTHING = "…"


@dataclass(frozen=True, slots=True)
class Typed:
    """A block that is typed into a cell.

    Attributes:
      place: Such as `how-to/slurm.md:12`.
      code: What is typed.
      shown: What the page says it shows, from the block directly below; None where the page shows nothing.
      not_run: Why it cannot be run on one machine by nobody; None where it can.
      lines: What a person types at its prompts, one after another.
    """

    place: str
    code: str
    shown: str | None
    not_run: str | None
    lines: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the page shows an error: below its first line come those of its notice."""
        return re.search(r"^\w*(Error|Interrupt|Timeout): ", self.shown or "", re.M) is not None


def pages() -> list[Path]:
    """The tutorial, the first page, and all how-to pages, in the order in which they are run."""
    return [DOCS / "tutorial.md", DOCS / "index.md", *sorted((DOCS / "how-to").glob("*.md"))]


def environment(page: Path) -> str | None:
    """The environment that a page needs, as it says at its top; None for that of most tests."""
    found = ENVIRONMENT.search(page.read_text(encoding="utf-8"))
    return found[1] if found else None


def typed(page: Path) -> list[Typed]:
    """All blocks of a page that are typed into cells."""
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks: list[tuple[int, int, str]] = []
    start, language = None, ""
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if start is None and fence:
            start, language = number, fence["language"]
        elif start is not None and line == "```":
            blocks.append((start, number, language))
            start = None
    shown = {
        start: "\n".join(lines[start + 1 : end])
        for start, end, language in blocks
        if language == SHOWN
    }
    found = []
    for start, end, language in blocks:
        if language == TYPED:
            reason = NOT_RUN.fullmatch(lines[start - 1])
            prompt = AT_PROMPT.fullmatch(lines[start - 1])
            found.append(
                Typed(
                    f"{page.relative_to(DOCS)}:{start + 1}",
                    "\n".join(lines[start + 1 : end]),
                    shown.get(end + 1),
                    reason[1] if reason else None,
                    tuple(prompt[1].split(" | ")) if prompt else (),
                )
            )
    return found


def pattern(shown: str) -> str:
    """A regular expression for what a page shows, each line with its end; times and versions may differ.

    `…` stands for anything in its line, and alone in a line for any number of lines.
    """
    return "".join(
        r"(.*\n)*?" if line == ANYTHING else _line_pattern(line) + r"\n"
        for line in shown.splitlines()
    )


def _line_pattern(line: str) -> str:
    text = re.escape(line).replace(ANYTHING, ".*?")
    text = re.sub(r"\d+\\\.\d+(?=\\ s\b)", r"\\d+\\.\\d+", text)
    # A busy machine takes longer to see that one which has computed now waits.
    text = text.replace(r"\ while\ waiting\ at\ line\ ", r"(?:\ while\ waiting)?\ at\ line\ ")
    return re.sub(r"(jax|tensorflow|Keras)\\ \d+(\\\.\d+)*", r"\1\\ \\d[\\w.]*", text)


def agrees(shown: str, said: str) -> bool:
    """Whether a page shows what was said."""
    trimmed = "".join(f"{line.rstrip()}\n" for line in said.strip("\n").splitlines())
    return re.fullmatch(pattern(shown), trimmed) is not None
