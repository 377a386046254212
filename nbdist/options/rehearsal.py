"""The options of what is planned for devices that are not there."""

from __future__ import annotations

from nbdist.options.parser import Parser


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
