"""The options of the doctor."""

from __future__ import annotations

import argparse
from typing import Any

from nbdist.launch.doctor.finding import Needs
from nbdist.launch.planning.choose_placement import choose_placement
from nbdist.options.parser import Parser
from nbdist.options.start import start_options

WHERE = ("hosts", "hosts_file", "ssh_config", "remote_python")
"""The options that say which hosts are meant and how they are reached."""


def doctor_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the doctor, which a notebook and a shell have alike."""
    start_options(parser, ("framework", "backend"))
    parser.add_argument("--json", action="store_true", help="findings and facts for a script")
    start_options(parser, WHERE)


def dist_doctor() -> Parser:
    """`%dist_doctor`."""
    parser = Parser(
        "%dist_doctor",
        "Check hosts before a start: this session's, those named, else this machine.",
        example="%dist_doctor --hosts h1:2,h2:2",
    )
    doctor_options(parser)
    return parser


def doctor_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `nbdist.launch.doctor.doctor` that the options stand for.

    Raises:
      OptionError: Hosts that cannot be read, or a file that cannot.
    """
    placement = choose_placement(**{name: getattr(asked, name) for name in WHERE})
    return {
        "placement": placement,
        "needs": Needs(framework=asked.framework, backend=asked.backend),
    }
