"""Options of the magics and of the command `nbdist`: one table, from which parsers, help and completion are made.

Options of a start and of the doctor become keyword arguments of the function in Python that does the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from operator import methodcaller
from pathlib import Path
from typing import Any

import nbdist
from nbdist.errors import OptionError
from nbdist.launch.doctor.finding import Needs
from nbdist.launch.model.start_options import FLAGS, PROCESSES, StartOptions
from nbdist.launch.planning import choose_placement
from nbdist.magics.parser import Parser
from nbdist.spelling import option

Add = Callable[[Any], object]
"""A function that adds one option, or several, to a parser of argparse."""


@dataclass(frozen=True, slots=True)
class Magic:
    """A magic as a person types it.

    Attributes:
      typed: Its name with its signs.
      about: One or two sentences.
      example: A line, or a cell, that can be typed as it is; by default the name alone.
      options: They are in `--help` in this order.
      asks_processes: Whether names or an expression behind it are those of the processes.
    """

    typed: str
    about: str
    example: str = ""
    options: tuple[Add, ...] = ()
    asks_processes: bool = False

    @property
    def name(self) -> str:
        """The name without its signs."""
        return self.typed.lstrip("%")

    def parser(self) -> Parser:
        """Return a new parser of its line."""
        parser = Parser(self.typed, self.about, example=self.example or self.typed)
        for add in self.options:
            add(parser)
        return parser


def _option(*names: str, **settings: Any) -> Add:
    """Return a function that adds an option; the settings are those of `ArgumentParser.add_argument`."""
    return methodcaller("add_argument", *names, **settings)


_switch = partial(_option, action="store_true")
_number = partial(_option, type=int, metavar="N")
_seconds = partial(_option, type=float, metavar="S")

_TARGETS = "these processes: 1, 0,2:4, host=h1"
_TIMEOUT = _seconds("--timeout", help="seconds the processes may take to answer")
_ANY_EXPRESSION = _option("expression", metavar="EXPR", nargs="+", help="any expression")
_SLICES = _number("--slices", default=1, help="so many slices of that topology")
_TOPOLOGY = "the pod, such as v5e-256, v5litepod-256, v5e:16x16 or v5p:4x4x8"
_AXES = "the size of each axis, such as data=16,model=16; -1 takes what the others leave"


def _one_of(*options: Add) -> Add:
    """Return a function that adds options of which a line may have one."""

    def add(parser: Any) -> None:
        group = parser.add_mutually_exclusive_group()
        for each in options:
            each(group)

    return add


def _of_start(names: Iterable[str]) -> Add:
    """Return a function that adds options of a start, by their names in `nbdist.start`, under their headings."""

    def add(parser: Any) -> None:
        groups = {PROCESSES: parser}
        for name in names:
            flag = FLAGS[name]
            if flag.group not in groups:
                groups[flag.group] = parser.add_argument_group(flag.group)
            groups[flag.group].add_argument(*flag.names, help=flag.help, **flag.argparse)

    return add


def _of_pod(default: str, *, finder: str) -> tuple[Add, ...]:
    """Return the options of a rehearsal, of a cell or a script."""
    return (
        _option("--topology", metavar="NAME", help=f"{_TOPOLOGY} ({default})"),
        _SLICES,
        _option(
            "--mesh",
            metavar="AXES",
            action="append",
            default=[],
            help=f"{_AXES}; the {finder} finds it under the name mesh. Given several times, the meshes are "
            "compared, each in a process of its own, side by side",
        ),
        _switch(
            "--programs",
            help="of several meshes: also show each program by itself, and what was printed",
        ),
        _option(
            "--value",
            type=float,
            metavar="X",
            help="the number that stands in for each value that a program would give, such as a loss (default: "
            "none; what needs one is an error)",
        ),
        _seconds("--timeout", help="end it after so many seconds"),
    )


_CELL_OPTIONS = (
    _option(
        "--on",
        metavar="TARGETS",
        help="such as 0,2:4 (4 left out), 0,2-4 or [0,2-4] (4 included), host=h1",
    ),
    _seconds("--timeout", help="interrupt the cell after so many seconds"),
    _seconds("--grace", help="seconds others may stay after one failed"),
    _switch("--no-wait", help="go on at once; the cell gives a handle to wait on"),
    _switch("--here", help="then run the cell in the notebook as well"),
    _option(
        "--check",
        action=argparse.BooleanOptionalAction,
        help="refuse the cell where processes differ in what must be equal (default: as given to %%dist_init)",
    ),
)

WHERE = ("hosts", "hosts_file", "ssh_config", "remote_python")
"""The options that say which hosts are meant and how they are reached."""

DOCTOR: tuple[Add, ...] = (
    _of_start(("framework", "backend")),
    _switch("--json", help="findings and facts for a script"),
    _of_start(WHERE),
)
"""The options of the doctor, which are the same in a notebook and in a shell."""

REHEARSE: tuple[Add, ...] = (
    *_of_pod("needed", finder="script"),
    _switch("--json", help="the programs, for scripts; all else goes to stderr"),
    _switch(
        "--install",
        help="put the compiler (libtpu, 700 MB) into a folder of its own, and do nothing else",
    ),
    _option(
        "script",
        nargs="?",
        type=Path,
        metavar="SCRIPT",
        help="a file of Python; what follows -- are its arguments",
    ),
)
"""The options of the command `nbdist rehearse`."""

_DIST = Magic(
    "%%dist",
    "Run this cell on the processes.",
    "%%dist --on 0,2 --timeout 60\nprint(jax.process_index())",
    _CELL_OPTIONS,
    asks_processes=True,
)

_ALL = (
    _DIST,
    Magic(
        "%%rank",
        "Run this cell on some processes.",
        "%%rank [0,1-2]\nprint(jax.process_index())",
        (_option("on", metavar="[TARGETS]", help="such as [0,1-2], both ends included"),),
    ),
    Magic(
        "%%local",
        "Run this cell in the notebook while %dist_mode is on.",
        "%%local\nimport os",
    ),
    Magic("%sync", "Wait until all processes are idle."),
    Magic(
        "%dist_init",
        "Start processes, connect them, and form one cluster. In a live session, -n alone changes their number.",
        "%dist_init -n 4 --devices-per-process 2",
        (
            _switch("--restart", help="stop the processes and start afresh on the same plan"),
            _option(
                "--attach",
                metavar="ID|last|FILE",
                help="join what already runs: a session, or engines of ipyparallel's by file or profile",
            ),
            _of_start(FLAGS),
        ),
    ),
    Magic(
        "%dist_doctor",
        "Check hosts before a start: this session's, those named, else this machine.",
        "%dist_doctor --hosts h1:2,h2:2",
        DOCTOR,
    ),
    Magic(
        "%dist_plan",
        "Show what each device of a pod would hold of an array, a tree or a model. Only shapes are looked at: "
        "neither a session nor a device is needed.",
        "%dist_plan --topology v5e:16x16 --mesh data=16,model=16 --specs rules params",
        (
            _option(
                "--topology",
                metavar="NAME",
                help="the pod, such as v5e-256, v5litepod-256, v5e:16x16, v5p:4x4x8 or 4x4x4",
            ),
            _SLICES,
            _number("--devices", help="so many CPU or GPU devices, in place of a topology"),
            _option(
                "--mesh",
                metavar="AXES",
                help=f"{_AXES} (default: the mesh of the specs, else of the arrays)",
            ),
            _option(
                "--specs",
                metavar="EXPR",
                help="a tree of specs, a list of (regular expression, spec), a function of the path, or a Keras "
                "layout map; with blanks in quotes (default: what the arrays carry)",
            ),
            _option(
                "--memory",
                metavar="SIZE",
                help="the memory of a device, such as 80GB (default: that of the chip)",
            ),
            _ANY_EXPRESSION,
        ),
    ),
    Magic(
        "%%dist_rehearse",
        "Run this cell in a process of its own whose devices are those of a pod that is not there: arrays have "
        "shapes and no values, and jitted functions are compiled for the pod and not run. A session is not "
        "touched.",
        "%%dist_rehearse --topology v5e:4x4 --mesh data=4,model=4\nstate = step(state, batch)",
        (
            *_of_pod("default: that of the cell before", finder="cell"),
            _switch("--restart", help="start over; names of the cells before are gone"),
        ),
    ),
    Magic(
        "%dist_cells",
        "List the cells that run and the last that have ended.",
        "%dist_cells 83",
        (
            _option(
                "cell",
                nargs="?",
                type=int,
                metavar="CELL",
                help="show the output of this one, until it ends",
            ),
            _switch("--interrupt", help="interrupt this one, and no other"),
        ),
    ),
    Magic(
        "%dist_debug",
        "Inspect the frame in which the last failed cell raised on a process; or answer processes of a "
        "background cell that wait at a breakpoint.",
        "%dist_debug 1",
        (_option("on", metavar="TARGETS", help=_TARGETS),),
    ),
    Magic(
        "%dist_explain",
        "Compile a call without running it, and show its memory and what its devices exchange.",
        "%dist_explain step(params, batch)",
        (
            _TIMEOUT,
            _option("call", metavar="CALL", nargs="+", help="a function of jax.jit, called"),
        ),
        asks_processes=True,
    ),
    Magic(
        "%dist_interrupt",
        "Interrupt what runs on the processes.",
        "%dist_interrupt --stop-at-step",
        (
            _switch(
                "--stop-at-step",
                help="before the same step on all: where the cell calls nbdist.checkpoint(), or Keras begins a "
                "batch",
            ),
        ),
    ),
    Magic(
        "%dist_layout",
        "Show where the variables of a Keras model lie, and why.",
        "%dist_layout model",
        (_TIMEOUT, _option("model", metavar="MODEL", nargs="+", help="a model or layer")),
        asks_processes=True,
    ),
    Magic(
        "%dist_mesh",
        "Show hosts, devices and meshes, and where an array lies.",
        "%dist_mesh params['w']",
        (
            _option(
                "path", nargs="?", metavar="NAME", help="an array or model, such as params['w']"
            ),
        ),
        asks_processes=True,
    ),
    Magic(
        "%dist_mode",
        "Run plain cells on the processes, too.",
        "%dist_mode -e",
        (
            _one_of(
                _switch("-e", "--enable", help="plain cells run on all processes"),
                _switch("-d", "--disable", help="plain cells run in the notebook"),
            ),
        ),
    ),
    Magic(
        "%dist_nan",
        "Count NaN and Inf in each array of a tree, and say where they are.",
        "%dist_nan params",
        (_TIMEOUT, _ANY_EXPRESSION),
        asks_processes=True,
    ),
    Magic(
        "%dist_pull",
        "Bring values from the processes into this notebook.",
        "%dist_pull w loss --on 0",
        (
            _option(
                "names",
                nargs="+",
                metavar="NAME",
                help="names in the processes' namespace, or NAME=EXPR, such as k=model.a.kernel",
            ),
            _option("--on", metavar="TARGETS", help="take it from these processes"),
            _switch("--each", help="what each process has, as a dict by process id"),
            _switch("--yes", help="do not ask before a large array"),
            _TIMEOUT,
        ),
        asks_processes=True,
    ),
    Magic(
        "%dist_push",
        "Send values of this notebook to the processes.",
        "%dist_push batch_size --on 0,2",
        (
            _option("names", nargs="+", metavar="NAME", help="names of this notebook"),
            _option("--on", metavar="TARGETS", help="to these processes only"),
            _option(
                "--sharding",
                metavar="EXPR",
                help="send each process only its shards of NumPy arrays, and make global arrays of them, "
                "such as \"NamedSharding(mesh, P('x'))\"",
            ),
        ),
    ),
    Magic(
        "%dist_recover",
        "Bring the processes in step again; they keep their variables. With TensorFlow: start lost processes "
        "again, and make the strategy anew.",
        "%dist_recover --without h2",
        (
            _option(
                "--without",
                metavar="HOSTS",
                default=(),
                type=lambda text: tuple(name for word in text.split(",") if (name := word.strip())),
                help="go on without these hosts, as h2,h3: meshes are made anew over the devices of the others, "
                "and arrays move there",
            ),
        ),
    ),
    Magic(
        "%dist_restore",
        "Read variables that %dist_save has written, on as many processes or another number.",
        "%dist_restore /shared/run7 params",
        (
            _option("path", metavar="PATH", help="the folder"),
            _option(
                "names", nargs="*", metavar="NAME", help="of the variables in it (default: all)"
            ),
            _TIMEOUT,
        ),
    ),
    Magic(
        "%dist_save",
        "Write variables of the processes into a folder, by shard.",
        "%dist_save /shared/run7 params opt_state",
        (
            _option("path", metavar="PATH", help="a folder that all hosts see"),
            _option(
                "names",
                nargs="*",
                metavar="NAME",
                help="names in the processes' namespace (default: all that hold arrays on several processes)",
            ),
            _TIMEOUT,
        ),
    ),
    Magic(
        "%dist_shards",
        "Show the shards of one array, or the arrays of a tree or model.",
        "%dist_shards params['w']",
        (
            _switch(
                "--by-bytes",
                help="the arrays of a tree, sorted by the bytes that a device needs",
            ),
            _TIMEOUT,
            _ANY_EXPRESSION,
        ),
        asks_processes=True,
    ),
    Magic(
        "%dist_shutdown",
        "Stop what %dist_init started.",
        options=(_switch("--leave", help="let a kept session go on without this kernel"),),
    ),
    Magic(
        "%dist_stack",
        "Show what processes are doing, even in the middle of a cell.",
        "%dist_stack 0,2",
        (
            _option("on", nargs="?", metavar="TARGETS", help=f"all threads of {_TARGETS}"),
            _switch(
                "--native", help="with frames of C and C++, if py-spy is installed and allowed to"
            ),
        ),
    ),
    Magic("%dist_status", "One row a process."),
    Magic("%dist_why", "Show the last failure or repair with all its details."),
    Magic("%dist_sync", "Copy what has changed in the files of %dist_init --sync to the hosts."),
)

MAGICS: Mapping[str, Magic] = {"distributed": _DIST} | {magic.name: magic for magic in _ALL}
"""The magics by name; `%%distributed` is another name of `%%dist`."""


def parser(name: str) -> Parser:
    """Return a new parser of a magic, by its name without signs."""
    return MAGICS[name].parser()


def timeout(asked: argparse.Namespace) -> dict[str, float]:
    """Return `timeout_s` as a keyword argument if it was given, else none."""
    return {} if asked.timeout is None else {"timeout_s": asked.timeout}


def start_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `nbdist.start` that the options of `%dist_init` stand for.

    Raises:
      OptionError: An option cannot be read.
    """
    return {name: flag.read(getattr(asked, flag.dest)) for name, flag in FLAGS.items()}


def refuse_beside_restart(asked: argparse.Namespace) -> None:
    """Refuse options beside `--restart`, which keeps the plan there is.

    Raises:
      OptionError: There is such an option; the text names it.
    """
    for name, default in vars(parser("dist_init").parse("")).items():
        if name != "restart" and getattr(asked, name) != default:
            raise OptionError(
                f"--restart starts the same plan afresh; --{name.replace('_', '-')} cannot change it. For another "
                "plan use %dist_shutdown, then %dist_init with the options."
            )


ATTACH_ARGUMENTS = signature(nbdist.attach).parameters.keys() - {"word", "progress"}
"""The arguments of `nbdist.start` that an attachment takes as well."""


def attach_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `nbdist.attach` that the options beside `--attach` stand for.

    Raises:
      OptionError: An option says where processes are to be started.
    """
    defaults = start_arguments(parser("dist_init").parse(""))
    given = {
        name: value for name, value in start_arguments(asked).items() if value != defaults[name]
    }
    for name in given.keys() - ATTACH_ARGUMENTS:
        raise OptionError(
            f"--attach takes part in processes that run; {option(name)} is for starting others."
        )
    return given


def asks_for_processes_alone(arguments: Mapping[str, Any]) -> bool:
    """Return whether arguments of `nbdist.start` ask for a number of processes, and for nothing else."""
    plain = StartOptions()
    given = {name for name, value in arguments.items() if value != getattr(plain, name)}
    return given == {"processes"}


def doctor_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `nbdist.launch.doctor.doctor` that the options stand for.

    Raises:
      OptionError: The hosts, or a file, cannot be read.
    """
    return {
        "placement": choose_placement(
            StartOptions(**{name: getattr(asked, name) for name in WHERE})
        ),
        "needs": Needs(framework=asked.framework, backend=asked.backend),
    }
