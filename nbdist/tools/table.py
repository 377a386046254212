"""The table of tools, and the one way to call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbdist.errors import NbdistError, OptionError, SessionError
from nbdist.launch.sessions import registry
from nbdist.tools import arguments as given
from nbdist.tools.answers import (
    MOST_DETAILS,
    Answer,
    Explanation,
    Said,
    Status,
    arrays_of,
    bounded,
    device_kinds,
    refused,
    sharding_of,
    shown_processes,
)
from nbdist.tools.arguments import MOST_ARRAYS, read
from nbdist.tools.participant import Joined, Need, Participant
from nbdist.view.shards import Shards


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool.

    Attributes:
      name: Its name; the command has hyphens in place of underscores.
      does: What it does, for whoever chooses a tool.
      arguments: The dataclass of its arguments.
      needs: What must be allowed.
      answer: Answers; gets the participant, the session it has joined, and the arguments.
    """

    name: str
    does: str
    arguments: type[given.OfSession]
    needs: Need
    answer: Callable[[Participant, Joined, Any], Answer]

    @property
    def command(self) -> str:
        """The name of the command."""
        return self.name.replace("_", "-")


def ask(participant: Participant, name: str, plain: Mapping[str, Any]) -> Answer:
    """Call a tool with plain data; an error of nbdist is an answer too."""
    try:
        tool = TOOLS.get(name)
        if tool is None:
            raise OptionError(f"There is no tool {name!r}; there are {', '.join(TOOLS)}.")
        if tool.needs not in participant.allowed:
            raise OptionError(
                f"{name} is not allowed here: nbdist mcp was started without --allow {tool.needs}. The person who "
                "set it up can add that."
            )
        arguments = read(tool.arguments, plain)
        return tool.answer(participant, participant.joined(arguments.session), arguments)
    except (NbdistError, TimeoutError) as error:
        return refused(error)


def _status(participant: Participant, joined: Joined, asked: given.OfSession) -> Answer:
    session = joined.session
    text, snapshot = session.status(), session.snapshot()
    hosts = tuple(dict.fromkeys(process.host for process in snapshot.processes))
    processes = shown_processes(snapshot.processes)
    status = Status(
        session=session.id,
        state=snapshot.state,
        framework=session.plan.framework,
        kept=session.plan.keep,
        kernels=tuple(sorted(registry.other_kernels(session.id))),
        allowed=tuple(sorted(participant.allowed)),
        hosts=hosts,
        processes=processes,
        processes_left_out=len(snapshot.processes) - len(processes),
        devices=device_kinds(snapshot),
        cells=joined.cells.states(),
        notices=snapshot.notices,
        disagreements=snapshot.disagreements,
    )
    return Answer(status, text)


def _arrays(participant: Participant, joined: Joined, asked: given.OfArrays) -> Answer:
    found = arrays_of(joined.session.snapshot(fresh=True), find=asked.find, most=asked.most)
    return Answer(found, found.text())


def _stacks(participant: Participant, joined: Joined, asked: given.OfStacks) -> Answer:
    return _said(joined.session.stacks(asked.on or None))


def _shards(participant: Participant, joined: Joined, asked: given.OfShards) -> Answer:
    """Answer from one process for a name, and from the reports for any other path: nothing is evaluated."""
    path, session = asked.path.strip(), joined.session
    if path.isidentifier():
        found: Shards | None = session.shards(path)
    else:
        found = Shards.seen(path, session.snapshot(fresh=True), while_="")
        found = found and replace(found, remark="as last reported")
    if found is None:
        raise SessionError(
            f"No array is reported under {path!r}: arrays lists the paths. No expression is evaluated; run_cell "
            "can give its value a name."
        )
    sharding = sharding_of(found, most=MOST_ARRAYS)
    return Answer(sharding, sharding.text)


def _explain(participant: Participant, joined: Joined, asked: given.OfExplain) -> Answer:
    found = joined.session.explain(asked.call)
    text, _ = bounded(found.text(), MOST_DETAILS)
    data = Explanation(call=found.expression, remark=found.remark, program=found.program, text=text)
    return Answer(data, text)


def _run_cell(participant: Participant, joined: Joined, asked: given.OfRunCell) -> Answer:
    cell = joined.cells.ask(asked)
    participant.wait(cell, ended=asked.wait)
    return cell.facts(asked.most_characters).answer()


def _follow_cell(participant: Participant, joined: Joined, asked: given.OfFollowCell) -> Answer:
    cell = joined.cells.of(asked.cell)
    participant.wait(cell, ended=asked.wait)
    return cell.facts(asked.most_characters).answer()


def _interrupt_cell(
    participant: Participant, joined: Joined, asked: given.OfInterruptCell
) -> Answer:
    return _said(joined.cells.of(asked.cell).interrupt())


def _recover(participant: Participant, joined: Joined, asked: given.OfSession) -> Answer:
    said: list[str] = []
    done = joined.session.recover(say=said.append)
    return _said("\n".join([*said, str(done)]))


def _said(text: str) -> Answer:
    shown, _ = bounded(text, MOST_DETAILS)
    return Answer(Said(text=shown), shown)


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            name="status",
            does="Show a session now: its state, hosts and devices, and the cell and line of each process.",
            arguments=given.OfSession,
            needs="read",
            answer=_status,
        ),
        Tool(
            name="arrays",
            does="List the arrays in the processes' variables: path, type, shape, sharding and bytes.",
            arguments=given.OfArrays,
            needs="read",
            answer=_arrays,
        ),
        Tool(
            name="stacks",
            does="Show where each process is: its Python stack, also in the middle of a cell.",
            arguments=given.OfStacks,
            needs="read",
            answer=_stacks,
        ),
        Tool(
            name="shards",
            does="Explain a sharding: which slices of an array lie on which devices, or how a tree lies.",
            arguments=given.OfShards,
            needs="read",
            answer=_shards,
        ),
        Tool(
            name="explain",
            does=(
                "Compile a call without running it: its memory, and its collectives by mesh axis and source line. "
                "Its arguments are evaluated."
            ),
            arguments=given.OfExplain,
            needs="run",
            answer=_explain,
        ),
        Tool(
            name="run_cell",
            does=(
                "Run a cell on the processes. It waits in line while somebody else's cell runs. If it has not "
                "ended when the call returns, follow_cell follows it by its number."
            ),
            arguments=given.OfRunCell,
            needs="run",
            answer=_run_cell,
        ),
        Tool(
            name="follow_cell",
            does="Wait for a cell of run_cell again, and show its state and all its output so far.",
            arguments=given.OfFollowCell,
            needs="read",
            answer=_follow_cell,
        ),
        Tool(
            name="interrupt_cell",
            does="Interrupt a cell of run_cell. Cells of others cannot be interrupted.",
            arguments=given.OfInterruptCell,
            needs="run",
            answer=_interrupt_cell,
        ),
        Tool(
            name="recover",
            does="Bring the processes in step again, and replace those that have ended; variables stay.",
            arguments=given.OfSession,
            needs="recover",
            answer=_recover,
        ),
    )
}
"""All tools, by name."""
