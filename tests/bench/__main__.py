"""All benchmarks in one run, but for that of rehearsals, which has another environment: `make bench` runs both."""

from __future__ import annotations

import subprocess
import sys

from tests.bench import (
    attach,
    check,
    copies,
    hosts,
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


def main() -> None:
    """Prints a line or two for each; screenshots of the large views go to `build/bench`."""
    start.main()
    keras_start.main()
    hosts.main()
    attach.main()
    noop.main()
    check.main()
    in_step.main()
    replace.main()
    copies.main()
    saving.main()
    probe.main()
    program.main()
    values.main()
    plan.main()
    subprocess.run([sys.executable, "-m", "tests.bench.view", "--shots", "build/bench"], check=True)


if __name__ == "__main__":
    main()
