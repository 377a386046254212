"""Options of a start, the doctor, a plan and a rehearsal, in magics and in the command `nbdist`.

Options of a start and of the doctor become keyword arguments of the function in Python that does the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nbdist.errors import OptionError
from nbdist.launch.doctor.finding import Needs
from nbdist.launch.model.start_options import FLAGS, PROCESSES, StartOptions
from nbdist.launch.planning import choose_placement
from nbdist.magics.parser import Parser
from nbdist.spelling import option


def dist_init() -> Parser:
    """Return the parser of `%dist_init`."""
    parser = Parser(
        "%dist_init",
        "Start processes, connect them, and form one cluster. In a live session, -n alone changes their number.",
        example="%dist_init -n 4 --devices-per-process 2",
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="stop the processes and start afresh on the same plan",
    )
    parser.add_argument(
        "--attach",
        metavar="ID|last|FILE",
        help="join what already runs: a session, or engines of ipyparallel's by file or profile",
    )
    start_options(parser, FLAGS)
    return parser


def start_options(parser: argparse.ArgumentParser, names: Iterable[str]) -> None:
    """Add some options of a start to a parser, under their headings.

    Args:
      parser: The parser.
      names: The names of the arguments of `nbdist.start` for which the options stand.
    """
    groups: dict[str, argparse._ActionsContainer] = {PROCESSES: parser}
    for name in names:
        flag = FLAGS[name]
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(flag.group)
        groups[flag.group].add_argument(*flag.names, help=flag.help, **flag.argparse)


def refuse_beside_restart(asked: argparse.Namespace) -> None:
    """Refuse options beside `--restart`, which keeps the plan there is.

    Raises:
      OptionError: There is such an option; the text names it.
    """
    for name, default in vars(dist_init().parse("")).items():
        if name != "restart" and getattr(asked, name) != default:
            raise OptionError(
                f"--restart starts the same plan afresh; --{name.replace('_', '-')} cannot change it. For another "
                "plan use %dist_shutdown, then %dist_init with the options."
            )


def attach_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `nbdist.attach` that the options beside `--attach` stand for.

    Raises:
      OptionError: An option says where processes are to be started.
    """
    given = start_arguments(asked)
    defaults = start_arguments(dist_init().parse(""))
    arguments = {name: value for name, value in given.items() if value != defaults[name]}
    for name in arguments.keys() - ATTACH_ARGUMENTS:
        raise OptionError(
            f"--attach takes part in processes that run; {option(name)} is for starting others."
        )
    return arguments


ATTACH_ARGUMENTS = frozenset(
    (
        *(
            "check",
            "grace_s",
            "give_up_s",
            "recover",
            "copies_s",
            "framework",
            "backend",
            "platform",
            "environment",
            "initialize",
        ),
        "devices_per_process",
        *("initialization_timeout_s", "heartbeat_timeout_s", "shutdown_timeout_s"),
    )
)
"""The arguments of `nbdist.start` that an attachment takes as well."""


def asks_for_processes_alone(arguments: Mapping[str, Any]) -> bool:
    """Return whether arguments of `nbdist.start` ask for a number of processes, and for nothing else."""
    plain = StartOptions()
    given = {name for name, value in arguments.items() if value != getattr(plain, name)}
    return given == {"processes"}


def start_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `nbdist.start` that the options of `%dist_init` stand for.

    Raises:
      OptionError: An option cannot be read.
    """
    return {name: flag.read(getattr(asked, flag.dest)) for name, flag in FLAGS.items()}


WHERE = ("hosts", "hosts_file", "ssh_config", "remote_python")
"""The options that say which hosts are meant and how they are reached."""


def doctor_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the doctor, which are the same in a notebook and in a shell."""
    start_options(parser, ("framework", "backend"))
    parser.add_argument("--json", action="store_true", help="findings and facts for a script")
    start_options(parser, WHERE)


def dist_doctor() -> Parser:
    """Return the parser of `%dist_doctor`."""
    parser = Parser(
        "%dist_doctor",
        "Check hosts before a start: this session's, those named, else this machine.",
        example="%dist_doctor --hosts h1:2,h2:2",
    )
    doctor_options(parser)
    return parser


def doctor_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `nbdist.launch.doctor.doctor` that the options stand for.

    Raises:
      OptionError: The hosts, or a file, cannot be read.
    """
    placement = choose_placement(StartOptions(**{name: getattr(asked, name) for name in WHERE}))
    return {
        "placement": placement,
        "needs": Needs(framework=asked.framework, backend=asked.backend),
    }


_TOPOLOGY = "the pod, such as v5e-256, v5litepod-256, v5e:16x16 or v5p:4x4x8"
_AXES = "the size of each axis, such as data=16,model=16; -1 takes what the others leave"


def dist_plan() -> Parser:
    """Return the parser of `%dist_plan`."""
    parser = Parser(
        "%dist_plan",
        "Show what each device of a pod would hold of an array, a tree or a model. Only shapes are looked at: "
        "neither a session nor a device is needed.",
        example="%dist_plan --topology v5e:16x16 --mesh data=16,model=16 --specs rules params",
    )
    add = parser.add_argument
    add(
        "--topology",
        metavar="NAME",
        help="the pod, such as v5e-256, v5litepod-256, v5e:16x16, v5p:4x4x8 or 4x4x4",
    )
    add("--slices", type=int, default=1, metavar="N", help="so many slices of that topology")
    add(
        "--devices",
        type=int,
        metavar="N",
        help="so many CPU or GPU devices, in place of a topology",
    )
    add(
        "--mesh",
        metavar="AXES",
        help="the size of each axis, such as data=16,model=16; -1 takes what the others leave "
        "(default: the mesh of the specs, else of the arrays)",
    )
    add(
        "--specs",
        metavar="EXPR",
        help="a tree of specs, a list of (regular expression, spec), a function of the path, or a Keras layout "
        "map; with blanks in quotes (default: what the arrays carry)",
    )
    add(
        "--memory",
        metavar="SIZE",
        help="the memory of a device, such as 80GB (default: that of the chip)",
    )
    parser.add_argument("expression", metavar="EXPR", nargs="+", help="any expression")
    return parser


def dist_rehearse() -> Parser:
    """Return the parser of `%%dist_rehearse`."""
    parser = Parser(
        "%%dist_rehearse",
        "Run this cell in a process of its own whose devices are those of a pod that is not there: arrays have "
        "shapes and no values, and jitted functions are compiled for the pod and not run. A session is not "
        "touched.",
        example="%%dist_rehearse --topology v5e:4x4 --mesh data=4,model=4\nstate = step(state, batch)",
    )
    _pod_options(parser, "default: that of the cell before", where="the cell finds it")
    parser.add_argument(
        "--restart", action="store_true", help="start over; names of the cells before are gone"
    )
    return parser


def rehearse_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command `nbdist rehearse`."""
    _pod_options(parser, "needed", where="the script finds it")
    add = parser.add_argument
    add("--json", action="store_true", help="the programs, for scripts; all else goes to stderr")
    add(
        "--install",
        action="store_true",
        help="put the compiler (libtpu, 700 MB) into a folder of its own, and do nothing else",
    )
    add(
        "script",
        nargs="?",
        type=Path,
        metavar="SCRIPT",
        help="a file of Python; what follows -- are its arguments",
    )


def _pod_options(parser: argparse.ArgumentParser, default: str, *, where: str) -> None:
    add = parser.add_argument
    add("--topology", metavar="NAME", help=f"{_TOPOLOGY} ({default})")
    add("--slices", type=int, default=1, metavar="N", help="so many slices of that topology")
    add(
        "--mesh",
        metavar="AXES",
        action="append",
        default=[],
        help=f"{_AXES}; {where} under the name mesh. Given several times, the meshes are compared, each in a "
        "process of its own, side by side",
    )
    add(
        "--programs",
        action="store_true",
        help="of several meshes: also show each program by itself, and what was printed",
    )
    add(
        "--value",
        type=float,
        metavar="X",
        help="the number that stands in for each value that a program would give, such as a loss (default: none; "
        "what needs one is an error)",
    )
    add("--timeout", type=float, metavar="S", help="end it after so many seconds")
