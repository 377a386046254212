"""Writes what XLA for TPUs makes of `programs.py`: `python -m tests.golden.make_programs [FOLDER]`.

It needs `jax[tpu]`, and no TPU: `make golden-programs` runs it in `.venv-rehearse`. Of each program there is its
text, `NAME.hlo.gz`; `recorded.json` has the versions, and each program's memory and costs as XLA gives them.
"""

from __future__ import annotations

import gzip
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.golden.programs import PROGRAMS
from tests.places import ROOT

TOPOLOGY = "v5e:2x4"
HERE = Path(__file__).parent / "programs_tpu"
MEMORY = ("argument", "output", "temp", "alias", "generated_code")


def devices() -> list[Any]:
    """Of TPUs that are not there."""
    from jax.experimental import topologies

    return list(topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGY).devices)


def facts(compiled: Any) -> dict[str, Any]:
    analysis, costs = compiled.memory_analysis(), compiled.cost_analysis()
    return {
        "memory": {name: getattr(analysis, f"{name}_size_in_bytes") for name in MEMORY},
        "flops": costs.get("flops"),
        "bytes_accessed": costs.get("bytes accessed"),
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    there = devices()
    recorded: dict[str, Any] = {
        "topology": TOPOLOGY,
        "jax": version("jax"),
        "libtpu": version("libtpu"),
        "programs": {},
    }
    for name, make in PROGRAMS.items():
        function, arguments, _ = make(there)
        compiled = function.lower(*arguments).compile()
        # Where the repository lies is nobody's business, and differs.
        text = compiled.as_text().replace(f"{ROOT}/", "")
        path = folder / f"{name}.hlo.gz"
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        recorded["programs"][name] = facts(compiled)
    path = folder / "recorded.json"
    path.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
