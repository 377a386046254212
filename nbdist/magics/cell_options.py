"""Options of the magics that do not start, examine or plan anything, and the table of all magics' parsers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from nbdist.errors import ArrayError, OptionError
from nbdist.magics import start_options
from nbdist.magics.parser import Parser


def dist_shutdown() -> Parser:
    """Return the parser of `%dist_shutdown`."""
    parser = Parser("%dist_shutdown", "Stop what %dist_init started.", example="%dist_shutdown")
    parser.add_argument(
        "--leave", action="store_true", help="let a kept session go on without this kernel"
    )
    return parser


def dist_recover() -> Parser:
    """Return the parser of `%dist_recover`."""
    parser = Parser(
        "%dist_recover",
        "Bring the processes in step again; they keep their variables. With TensorFlow: start lost processes "
        "again, and make the strategy anew.",
        example="%dist_recover --without h2",
    )
    parser.add_argument(
        "--without",
        metavar="HOSTS",
        default=(),
        type=_hosts,
        help="go on without these hosts, as h2,h3: meshes are made anew over the devices of the others, and "
        "arrays move there",
    )
    return parser


def _hosts(text: str) -> tuple[str, ...]:
    return tuple(name for word in text.split(",") if (name := word.strip()))


def dist_interrupt() -> Parser:
    """Return the parser of `%dist_interrupt`."""
    parser = Parser(
        "%dist_interrupt",
        "Interrupt what runs on the processes.",
        example="%dist_interrupt --stop-at-step",
    )
    parser.add_argument(
        "--stop-at-step",
        action="store_true",
        help="before the same step on all: where the cell calls nbdist.checkpoint(), or Keras begins a batch",
    )
    return parser


def dist_cells() -> Parser:
    """Return the parser of `%dist_cells`."""
    parser = Parser(
        "%dist_cells",
        "List the cells that run and the last that have ended.",
        example="%dist_cells 83",
    )
    parser.add_argument(
        "cell",
        nargs="?",
        type=int,
        metavar="CELL",
        help="show the output of this one, until it ends",
    )
    parser.add_argument("--interrupt", action="store_true", help="interrupt this one, and no other")
    return parser


def dist_stack() -> Parser:
    """Return the parser of `%dist_stack`."""
    parser = Parser(
        "%dist_stack",
        "Show what processes are doing, even in the middle of a cell.",
        example="%dist_stack 0,2",
    )
    parser.add_argument(
        "on", nargs="?", metavar="TARGETS", help="all threads of these processes: 1, 0,2:4, host=h1"
    )
    parser.add_argument(
        "--native",
        action="store_true",
        help="with frames of C and C++, if py-spy is installed and allowed to",
    )
    return parser


def dist_debug() -> Parser:
    """Return the parser of `%dist_debug`."""
    parser = Parser(
        "%dist_debug",
        "Inspect the frame in which the last failed cell raised on a process; or answer processes of a "
        "background cell that wait at a breakpoint.",
        example="%dist_debug 1",
    )
    parser.add_argument("on", metavar="TARGETS", help="these processes: 1, 0,2:4, host=h1")
    return parser


def dist() -> Parser:
    """Return the parser of `%%dist`."""
    parser = Parser(
        "%%dist",
        "Run this cell on the processes.",
        example="%%dist --on 0,2 --timeout 60\nprint(jax.process_index())",
    )
    add = parser.add_argument
    add(
        "--on",
        metavar="TARGETS",
        help="such as 0,2:4 (4 left out), 0,2-4 or [0,2-4] (4 included), host=h1",
    )
    add("--timeout", type=float, metavar="S", help="interrupt the cell after so many seconds")
    add("--grace", type=float, metavar="S", help="seconds others may stay after one failed")
    add("--no-wait", action="store_true", help="go on at once; the cell gives a handle to wait on")
    add("--here", action="store_true", help="then run the cell in the notebook as well")
    add(
        "--check",
        action=argparse.BooleanOptionalAction,
        help="refuse the cell where processes differ in what must be equal (default: as given to %%dist_init)",
    )
    return parser


def dist_pull() -> Parser:
    """Return the parser of `%dist_pull`."""
    parser = Parser(
        "%dist_pull",
        "Bring values from the processes into this notebook.",
        example="%dist_pull w loss --on 0",
    )
    add = parser.add_argument
    add(
        "names",
        nargs="+",
        metavar="NAME",
        help="names in the processes' namespace, or NAME=EXPR, such as k=model.a.kernel",
    )
    add("--on", metavar="TARGETS", help="take it from these processes")
    add("--each", action="store_true", help="what each process has, as a dict by process id")
    add("--yes", action="store_true", help="do not ask before a large array")
    _add_timeout(parser)
    return parser


def names_and_expressions(words: Sequence[str]) -> dict[str, str]:
    """Return expressions by name: `["w", "k=model.a.kernel"]` → `{"w": "w", "k": "model.a.kernel"}`.

    Raises:
      ArrayError: An expression has no name.
    """
    found = {}
    for word in words:
        name, is_named, expression = word.partition("=")
        if not name.isidentifier() or (is_named and not expression):
            value = "EXPR" if is_named else word
            raise ArrayError(
                f"{word!r} is no name to pull into. Give it one: NAME={value}, in brackets where it has blanks, "
                "such as k=(a + b)."
            )
        found[name] = expression if is_named else name
    return found


def dist_push() -> Parser:
    """Return the parser of `%dist_push`."""
    parser = Parser(
        "%dist_push",
        "Send values of this notebook to the processes.",
        example="%dist_push batch_size --on 0,2",
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="names of this notebook")
    parser.add_argument("--on", metavar="TARGETS", help="to these processes only")
    parser.add_argument(
        "--sharding",
        metavar="EXPR",
        help="send each process only its pieces of NumPy arrays, and make global arrays of them, "
        "such as \"NamedSharding(mesh, P('x'))\"",
    )
    return parser


def dist_save() -> Parser:
    """Return the parser of `%dist_save`."""
    parser = Parser(
        "%dist_save",
        "Write variables of the processes into a folder, by shard.",
        example="%dist_save /shared/run7 params opt_state",
    )
    parser.add_argument("path", metavar="PATH", help="a folder that all hosts see")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="names in the processes' namespace (default: all that hold arrays on several processes)",
    )
    _add_timeout(parser)
    return parser


def dist_restore() -> Parser:
    """Return the parser of `%dist_restore`."""
    parser = Parser(
        "%dist_restore",
        "Read variables that %dist_save has written, on as many processes or another number.",
        example="%dist_restore /shared/run7 params",
    )
    parser.add_argument("path", metavar="PATH", help="the folder")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="of the variables in it (default: all)"
    )
    _add_timeout(parser)
    return parser


def dist_mesh() -> Parser:
    """Return the parser of `%dist_mesh`."""
    parser = Parser(
        "%dist_mesh",
        "Show hosts, devices and meshes, and where an array lies.",
        example="%dist_mesh params['w']",
    )
    parser.add_argument(
        "path", nargs="?", metavar="NAME", help="an array or model, such as params['w']"
    )
    return parser


def dist_shards() -> Parser:
    """Return the parser of `%dist_shards`."""
    parser = Parser(
        "%dist_shards",
        "Show the shards of one array, or the arrays of a tree or model.",
        example="%dist_shards params['w']",
    )
    parser.add_argument(
        "--by-bytes",
        action="store_true",
        help="the arrays of a tree, sorted by the bytes that a device needs",
    )
    _add_timeout(parser)
    parser.add_argument("expression", metavar="EXPR", nargs="+", help="any expression")
    return parser


def dist_nan() -> Parser:
    """Return the parser of `%dist_nan`."""
    parser = Parser(
        "%dist_nan",
        "Count NaN and Inf in each array of a tree, and say where they are.",
        example="%dist_nan params",
    )
    _add_timeout(parser)
    parser.add_argument("expression", metavar="EXPR", nargs="+", help="any expression")
    return parser


def dist_explain() -> Parser:
    """Return the parser of `%dist_explain`."""
    parser = Parser(
        "%dist_explain",
        "Compile a call without running it, and show its memory and what its devices exchange.",
        example="%dist_explain step(params, batch)",
    )
    _add_timeout(parser)
    parser.add_argument("call", metavar="CALL", nargs="+", help="a function of jax.jit, called")
    return parser


def dist_layout() -> Parser:
    """Return the parser of `%dist_layout`."""
    parser = Parser(
        "%dist_layout",
        "Show where the variables of a Keras model lie, and why.",
        example="%dist_layout model",
    )
    _add_timeout(parser)
    parser.add_argument("model", metavar="MODEL", nargs="+", help="a model or layer")
    return parser


def _add_timeout(parser: Parser) -> None:
    parser.add_argument(
        "--timeout", type=float, metavar="S", help="seconds the processes may take to answer"
    )


def before_expression(parser: Parser, line: str) -> tuple[argparse.Namespace, str]:
    """Return the options at the front of a line, and the rest, which may hold anything a shell would take apart.

    Raises:
      OptionError: An option is unknown, cannot be read, or stands behind the expression.
      HelpShown: The line is empty, or asks for help.
    """
    if line.split()[-1:] in ([], ["--help"], ["-h"]):
        parser.parse("--help")
    asked, expression = parser.parse_before_code(line)
    late = next((word for word in expression.split() if word in parser.flags), None)
    if late is not None:
        raise OptionError(
            f"{late} goes before the expression, such as {parser.prog} {late} "
            f"{'S ' if parser.takes_value(late) else ''}{expression.split()[0]}."
        )
    return asked, expression


def limit(asked: argparse.Namespace) -> dict[str, float]:
    """Return `timeout_s` as a keyword argument if it was given, else none."""
    return {} if asked.timeout is None else {"timeout_s": asked.timeout}


def dist_mode() -> Parser:
    """Return the parser of `%dist_mode`."""
    parser = Parser("%dist_mode", "Run plain cells on the processes, too.", example="%dist_mode -e")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-e", "--enable", action="store_true", help="plain cells run on all processes"
    )
    group.add_argument(
        "-d", "--disable", action="store_true", help="plain cells run in the notebook"
    )
    return parser


def dist_status() -> Parser:
    """Return the parser of `%dist_status`."""
    return Parser("%dist_status", "One row a process.", example="%dist_status")


def dist_sync() -> Parser:
    """Return the parser of `%dist_sync`."""
    return Parser(
        "%dist_sync",
        "Copy what has changed in the files of %dist_init --sync to the hosts.",
        example="%dist_sync",
    )


def sync() -> Parser:
    """Return the parser of `%sync`."""
    return Parser("%sync", "Wait until all processes are idle.", example="%sync")


def rank() -> Parser:
    """Return the parser of `%%rank`."""
    parser = Parser(
        "%%rank",
        "Run this cell on some processes.",
        example="%%rank [0,1-2]\nprint(jax.process_index())",
    )
    parser.add_argument("on", metavar="[TARGETS]", help="such as [0,1-2], both ends included")
    return parser


def local() -> Parser:
    """Return the parser of `%%local`."""
    return Parser(
        "%%local",
        "Run this cell in the notebook while %dist_mode is on.",
        example="%%local\nimport os",
    )


MAGICS: Mapping[str, Callable[[], Parser]] = {
    "dist": dist,
    "distributed": dist,
    "rank": rank,
    "local": local,
    "sync": sync,
    "dist_init": start_options.dist_init,
    "dist_doctor": start_options.dist_doctor,
    "dist_plan": start_options.dist_plan,
    "dist_rehearse": start_options.dist_rehearse,
    **{
        make.__name__: make
        for make in (
            *(dist_cells, dist_debug, dist_explain),
            *(dist_interrupt, dist_layout),
            *(dist_mesh, dist_mode, dist_nan, dist_pull, dist_push),
            *(dist_recover, dist_restore, dist_save),
            *(dist_shards, dist_shutdown, dist_stack),
            *(dist_status, dist_sync),
        )
    },
}
"""The parser of each magic, by the name of the magic without its signs."""

ON_THE_PROCESSES = frozenset(
    {"dist", "dist_explain", "dist_layout", "dist_mesh", "dist_nan", "dist_pull", "dist_shards"}
)
"""The magics whose names or expression are those of the processes."""
