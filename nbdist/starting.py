"""Start of a session, or attachment to one, from a person's options."""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from nbdist.errors import HostError, OptionError, SessionError, VersionError
from nbdist.launch.files import sources
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import StartProgress, silent
from nbdist.launch.model.plan import Plan
from nbdist.launch.model.start_options import Rules, StartOptions
from nbdist.launch.planning import choose_placement, make_plan, proxy_warning
from nbdist.launch.sessions import registry
from nbdist.launch.start.spawn import spawn
from nbdist.spelling import command, option

if TYPE_CHECKING:
    from nbdist.session.session import Session
    from nbdist.view.feed import Feed

RULES = tuple(field.name for field in fields(Rules))
"""The options that say what a session does with its cells."""


def start_session(
    options: StartOptions, *, progress: StartProgress | None = None, feed: Feed | None = None
) -> Session:
    """Start processes, on this machine or on `hosts`, and join them to one cluster.

    Args:
      options: The options of the start.
      progress: Called with (stage, done, total) while it starts.
      feed: Gets the snapshots; default: one of the session's own.

    Raises:
      OptionError: An option is impossible; nothing was started.
      LaunchError: The start failed; no process is left running.
    """
    plan, rules = planned(options)
    proxies = proxy_warning({**os.environ, **plan.environment}, plan.processes[0].host)
    if proxies is not None and plan.placement.on_this_machine:  # hosts are asked themselves
        warnings.warn(proxies, stacklevel=2)
    left_out: list[str] = []
    while True:
        try:
            return _start(plan, left_out, rules=rules, progress=progress or silent, feed=feed)
        except (HostError, VersionError) as error:
            plan = _without(plan, error)
            left_out.append(str(error))


def planned(options: StartOptions) -> tuple[Plan, Rules]:
    """Return what a start would start, and the rules of its session; nothing is started.

    Raises:
      OptionError: An option is impossible.
      LaunchError: Slurm, or the source of information about a TPU, fails.
    """
    rules = Rules(**options.chosen(RULES))
    _refuse_copies(options)
    sync = [options.sync] if isinstance(options.sync, str) else options.sync or ()
    named = tuple(str(source.path) for source in sources(sync))
    return make_plan(options, replace(choose_placement(options), sync=named)), rules


def _refuse_copies(options: StartOptions) -> None:
    """Refuse `copies_s` if no process would make copies.

    Raises:
      OptionError: The processes use a framework that cannot be repaired in place.
    """
    framework = framework_named(options.framework)
    named = framework.title if options.backend in (None, "jax") else options.backend
    if options.copies_s is not None and (
        framework.recovery != "in place" or options.backend not in (None, "jax")
    ):
        raise OptionError(
            f"{option('copies_s')}: processes that compute with {named} keep no copies for each other. "
            "Leave it out, and write checkpoints."
        )


def attach_session(
    word: str, *, progress: StartProgress | None = None, feed: Feed | None = None, **options: Any
) -> Session:
    """Attach to a running session, or make a session of engines that somebody else has started.

    Args:
      word: As for `nbdist.launch.sessions.foreign.resolve`: an id, `last`, a file, a profile of ipyparallel's.
      progress: Called with (stage, done, total).
      feed: Gets the snapshots; default: one of the session's own.
      **options: Any of `RULES`, by default as the session has them; for engines that somebody else has started,
        those of `StartOptions` as well.

    Raises:
      SessionError: No such session or cluster, or its processes are gone; the message lists the existing ones.
      OptionError: An option cannot be changed in a running session.
      LaunchError: No session can be made of the engines.
    """
    from nbdist.launch.sessions.foreign import ForeignCluster, resolve, take_part
    from nbdist.launch.sessions.recorded import regain
    from nbdist.session.session import Session

    rules = {name: options.pop(name) for name in RULES if name in options}
    found = resolve(word)
    if isinstance(found, ForeignCluster):
        cluster, given = take_part(found, progress=progress or silent, **options), Rules()
    elif options:
        raise OptionError(
            f"Session {found.id} runs already, and {option(next(iter(options)))} cannot "
            "change it. Leave it out."
        )
    else:
        cluster, given = regain(found)
    return Session(cluster, rules=replace(given, **rules), progress=progress or silent, feed=feed)


def kept_here(besides: str | None = None) -> list[str]:
    """Return a sentence for each kept session that was started from this folder and has no kernel."""
    try:
        there = registry.sessions()
        cwd = os.getcwd()  # noqa: PTH109 - as it is written down
    except (OSError, SessionError):
        return []
    return [
        f"Session {one.id} of this folder still runs, without a kernel: %dist_init --attach {one.id} goes on with "
        f"it, nbdist stop {one.id} ends it."
        for one in there
        if one.kept and one.here and one.cwd == cwd and one.id != besides and not one.attached
    ]


def no_session() -> str:
    """Return the message for a kernel without a session: how to attach to a kept one, or start one."""
    try:
        kept = [one for one in registry.sessions() if one.kept and one.here]
    except (OSError, SessionError):
        kept = []
    if not kept:
        return f"No session is running. {command('start')} starts one."
    newest = kept[-1].id
    more = f", and {len(kept) - 1} more: nbdist ls lists them" if len(kept) > 1 else ""
    return (
        f"No session is running in this kernel. Session {newest} is kept{more}. {command('attach', newest)} goes "
        f"back to it, {command('start')} starts another."
    )


def _start(
    plan: Plan,
    left_out: Sequence[str],
    *,
    rules: Rules,
    progress: StartProgress,
    feed: Feed | None,
) -> Session:
    cluster = spawn(plan, session=uuid.uuid4().hex[:8])
    try:
        # Imported while the processes import: both take a while.
        from nbdist.session.session import Session

        return Session(
            cluster,
            rules=rules,
            progress=progress,
            feed=feed,
            left_out=tuple(left_out),
        )
    except BaseException:
        cluster.stop()
        raise


def _without(plan: Plan, error: HostError | VersionError) -> Plan:
    """Return the plan without a host that did not come up, if enough others are left.

    Raises:
      HostError: The given error, if all hosts are required or too few are left.
    """
    least = plan.placement.min_hosts
    names = {process.host for process in plan.processes}
    if least is None or error.host is None or error.host not in names or len(names) - 1 < least:
        raise error
    return plan.without(error.host)
