"""The options of what is planned for devices that are not there."""

from __future__ import annotations

import argparse
from pathlib import Path

from nbdist.options.parser import Parser

_TOPOLOGY = "the pod, such as v5e-256, v5litepod-256, v5e:16x16 or v5p:4x4x8"
_AXES = "the size of each axis, such as data=16,model=16; -1 takes what the others leave"


def dist_plan() -> Parser:
    """`%dist_plan`."""
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
    """`%%dist_rehearse`."""
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
    """Adds the options of the command `nbdist rehearse`."""
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
