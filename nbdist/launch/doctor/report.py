"""Report of the doctor, as text for a person and as JSON for a script."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nbdist.contract.checkup import Checkup, OldPython, plain_checkup
from nbdist.launch.doctor.finding import Examined, Finding
from nbdist.launch.model.framework import framework_names
from nbdist.quantities import bytes_text, count_text, seconds_text

SHOWN = ("nbdist", *framework_names())


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All hosts, the findings, and how many seconds the examination took."""

    everyone: Sequence[Examined]
    findings: Sequence[Finding]
    seconds: float

    @property
    def exit_code(self) -> int:
        """1 if a start would fail, 0 if at most warnings were found."""
        return int(any(finding.severity == "error" for finding in self.findings))

    def text(self) -> str:
        """Return a line per host, then the findings."""
        names = max(len(one.host) for one in self.everyone)
        states = {one.host: self._state(one.host) for one in self.everyone}
        width = max(map(len, states.values()))
        lines = [
            f"{one.host:{names}}  {states[one.host]:{width}}  {_described(one.facts)}".rstrip()
            for one in self.everyone
        ]
        lines += [findings_text(self.findings)] if self.findings else []
        seen = count_text(len(self.everyone), "host")
        lines.append(f"{seen} examined in {seconds_text(self.seconds)}")
        return "\n".join(lines)

    def json(self) -> str:
        """Return one object: `ok`, `seconds`, `findings` and, by host, `facts`."""
        found: dict[str, Any] = {
            "ok": self.exit_code == 0,
            "seconds": round(self.seconds, 3),
            "findings": [asdict(finding) for finding in self.findings],
            "hosts": {one.host: one.facts and plain_checkup(one.facts) for one in self.everyone},
        }
        return json.dumps(found, indent=2)

    def _state(self, host: str) -> str:
        kinds = [finding.severity for finding in self.findings if finding.host == host]
        counts = [(kinds.count(kind), kind) for kind in ("error", "warning") if kind in kinds]
        return ", ".join(count_text(count, kind) for count, kind in counts) or "ok"


def findings_text(findings: Sequence[Finding]) -> str:
    """Return three lines per finding: what, where, what to type; text that is no command has a line of its own."""
    blocks = [
        f"\n{finding.severity}: {finding.host}: {finding.what}\n"
        f"  where: {finding.where}\n"
        f"{do_text(finding.do)}"
        for finding in findings
    ]
    return "\n".join(blocks) + "\n"


_THEN = re.compile(r"(?:, |; )(?=(?:and|or|then|once|when|to|before|where) )")


def do_text(do: str) -> str:
    """Return the command to type, on a line that can be pasted, and further advice below it."""
    command, *more = _THEN.split(do, maxsplit=1)
    return "\n".join([f"  type:  {command}", *(f"         {part}" for part in more)])


def _described(facts: Checkup | OldPython | None) -> str:
    if facts is None:
        return ""
    parts = [f"Python {'.'.join(map(str, facts.python))}"]
    if isinstance(facts, OldPython):
        return parts[0]
    parts += [f"{name} {version}" for name in SHOWN if (version := facts.packages.get(name))]
    available = facts.memory.available
    parts += [f"{bytes_text(available)} free"] if available is not None else []
    return ", ".join(parts)
