"""The options of a start, and what they stand for in Python."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from nbdist.errors import OptionError
from nbdist.launch.model.start_options import FLAGS, PROCESSES, StartOptions
from nbdist.options.parser import Parser
from nbdist.spelling import option


def dist_init() -> Parser:
    """`%dist_init`."""
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
    """Adds some options of a start, under their headings.

    Args:
      parser: Gets them.
      names: As `nbdist.start` has them.
    """
    groups: dict[str, argparse._ActionsContainer] = {PROCESSES: parser}
    for name in names:
        flag = FLAGS[name]
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(flag.group)
        groups[flag.group].add_argument(*flag.names, help=flag.help, **flag.argparse)


def refuse_beside_restart(asked: argparse.Namespace) -> None:
    """Refuses options beside `--restart`, which keeps the plan there is.

    Raises:
      OptionError: Names one of them.
    """
    for name, default in vars(dist_init().parse("")).items():
        if name != "restart" and getattr(asked, name) != default:
            raise OptionError(
                f"--restart starts the same plan afresh; --{name.replace('_', '-')} cannot change it. For another "
                "plan use %dist_shutdown, then %dist_init with the options."
            )


def attach_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of `nbdist.attach` that the options beside `--attach` stand for.

    Raises:
      OptionError: One that says where processes are to be started.
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


def asks_for_processes_alone(arguments: Mapping[str, Any]) -> bool:
    """Whether a number of processes was asked for, and nothing else, in arguments of `nbdist.start`."""
    plain = StartOptions()
    given = {name for name, value in arguments.items() if value != getattr(plain, name)}
    return given == {"processes"}


def start_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of `nbdist.start` that the options of `%dist_init` stand for.

    Raises:
      OptionError: One that cannot be read.
    """
    return {name: flag.read(getattr(asked, flag.dest)) for name, flag in FLAGS.items()}
