"""Queries to Slurm: one of its commands, run once."""

from __future__ import annotations

import shutil
import subprocess

from nbdist.errors import LaunchError, OptionError
from nbdist.spelling import option

ANSWER_SECONDS = 10.0
"""Seconds until a query fails; if Slurm's controller does not listen, its commands mostly report that sooner."""


def have_commands() -> None:
    """Check that Slurm's commands are on the PATH.

    Raises:
      OptionError: They are not.
    """
    missing = [
        name for name in ("srun", "squeue", "sinfo", "scancel") if shutil.which(name) is None
    ]
    if missing:
        raise OptionError(
            f"{option('slurm', True)}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not on this "
            "kernel's PATH. Start the notebook on a machine that submits jobs to Slurm."
        )


def _elsewhere() -> str:
    return f"Run the notebook on a login node of the cluster, or name hosts with {option('hosts')}."


def ask(*command: str, timeout_s: float = ANSWER_SECONDS) -> str:
    """Return the output of a command of Slurm.

    Raises:
      LaunchError: The command failed, with its own words, or does not answer.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LaunchError(
            f"Slurm does not answer: {command[0]} took more than {timeout_s:g} s. {_elsewhere()}"
        ) from None
    except OSError as error:
        raise LaunchError(f"Slurm cannot be asked: {error}. {_elsewhere()}") from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"{command[0]} failed"
        raise LaunchError(f"Slurm cannot be asked: {said}\n{_elsewhere()}")
    return done.stdout


def node_addresses(*, nodes: str | None, partition: str | None) -> tuple[str, ...]:
    """Return where Slurm itself reaches the nodes of an allocation, of a partition, or all of them; each once.

    Raises:
      LaunchError: Slurm cannot be asked.
    """
    chosen = (f"--nodes={nodes}",) if nodes else (f"--partition={partition}",) if partition else ()
    return tuple(
        dict.fromkeys(ask("sinfo", "--noheader", "--Node", "--format=%o", *chosen).split())
    )
