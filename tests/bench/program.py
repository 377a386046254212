"""How long it takes to read the text of a program of 50 MB, against counting its lines."""

from __future__ import annotations

import gzip
import re
import time
from pathlib import Path

from nbdist.contract.program import MeshAxes
from nbdist.program.compiled import read_program

MEGABYTES = 50
TEXTS = Path(__file__).parents[1] / "golden" / "programs_tpu"


def large(text: str, megabytes: int) -> str:
    """A program that calls a program many times, each copy with names of its own."""
    head, _, body = text.partition("\n\n\n")
    copies = max(1, megabytes * 2**20 // len(body))
    inner = [re.sub(r"%([\w.\-]+)", rf"%\1.copy{number}", body) for number in range(copies)]
    calls = "\n".join(
        f"  %call.{number} = f32[] call(), to_apply=%{_entry(text)}.copy{number}"
        for number in range(copies)
    )
    called = "".join("\n" + part.replace("\nENTRY ", "\n") for part in inner)
    return f"{head}\n\n{called}\n\nENTRY %all () -> f32[] {{\n{calls}\n}}\n"


def _entry(text: str) -> str:
    found = re.search(r"\nENTRY %([\w.\-]+)", text)
    assert found is not None
    return found[1]


def main() -> None:
    """Prints one line."""
    mesh = MeshAxes(names=("data", "model"), shape=(2, 4), devices=tuple(range(8)))
    path = TEXTS / "tensor_parallel_step.hlo.gz"
    once = gzip.decompress(path.read_bytes()).decode()
    text = large(once, MEGABYTES)
    begin = time.process_time()
    lines = len(text.splitlines())
    floor = time.process_time() - begin
    begin = time.process_time()
    program = read_program(text, meshes=[mesh])
    took = time.process_time() - begin
    print(
        f"program: {len(text) / 2**20:.0f} MB of text, {lines} lines, {len(program.collectives)} collectives: "
        f"{took:.2f} s, {took / floor:.0f} times as long as to split its lines"
    )


if __name__ == "__main__":
    main()
