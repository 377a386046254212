"""All benchmarks in one run, but for that of rehearsals, which has another environment: `make bench` runs both."""

from __future__ import annotations

import subprocess
import sys

from tests.bench import (
    attach,
    check,
    copies,
    hosts,
    idle,
    in_step,
    keras_start,
    noop,
    plan,
    probe,
    program,
    replace,
    saving,
    start,
    values,
)

IN_ORDER = (
    start,
    keras_start,
    hosts,
    attach,
    noop,
    idle,
    check,
    in_step,
    replace,
    copies,
    saving,
    probe,
)


def main() -> None:
    """Prints a line or two for each; screenshots of the large views go to `build/bench`."""
    for benchmark in (*IN_ORDER, program, values, plan):
        benchmark.main()
    subprocess.run([sys.executable, "-m", "tests.bench.view", "--shots", "build/bench"], check=True)


if __name__ == "__main__":
    main()
