"""`python -m nbdist.rehearsal.pod`: a script on a pod that is not there; `nbdist rehearse` starts it.

What it compiles is in the file `--report`, a line of JSON each, as soon as it is compiled.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from pathlib import Path

from nbdist.errors import NbdistError
from nbdist.machine.processes import die_with
from nbdist.rehearsal.pod.backend import Rehearsal
from nbdist.rehearsal.pod.devices import cut_to_users
from nbdist.rehearsal.pod.shown import ProgramReport, printed


def main() -> int:
    """Runs the script.

    Returns:
      0, or 2 where it did not come to its end.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--topology", required=True)
    parser.add_argument("--slices", type=int, default=1)
    parser.add_argument("--mesh")
    parser.add_argument("--value", type=float)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    # A command that is killed ends nothing by itself.
    die_with(options.parent)
    report = ProgramReport(options.report, None if options.silent else printed)
    try:
        rehearsal = Rehearsal(
            options.topology,
            slices=options.slices,
            mesh=options.mesh,
            compiled=report.compiled,
            begins=report.begins,
        )
    except NbdistError as error:
        print(f"nbdist rehearse: {error}", file=sys.stderr)
        return 2
    rehearsal.trace.stand_in = options.value
    rehearsal.begin()
    sys.argv = [str(options.script), *options.arguments]
    sys.path[0] = str(options.script.resolve().parent)
    names = {"mesh": rehearsal.mesh} if rehearsal.mesh is not None else {}
    try:
        runpy.run_path(str(options.script), init_globals=names, run_name="__main__")
    except NbdistError as error:
        cut_to_users(error.__traceback__)
        traceback.print_exception(error)
        return 2
    except SystemExit as error:
        return 0 if error.code in (None, 0) else 2
    except Exception:  # noqa: BLE001 - the script's own, shown as Python shows it
        traceback.print_exc()
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
