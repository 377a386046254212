"""The one entry point through which a kernel calls an engine.

A call is sent as a name, JSON and raw buffers; its reply is JSON and raw buffers. A closure is never sent:
ipyparallel would send its byte code and run it against the engine's copy of the module. The types of the JSON
are in `nbdist.contract.calls`.
"""

from __future__ import annotations

import base64
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from nbdist.contract import calls as contract
from nbdist.contract.calls import PROTOCOL, Done, engine, inspection, namespace, stepping, values
from nbdist.contract.wire import decode, encode
from nbdist.engine import frameworks
from nbdist.engine.kernel.answering import answer_questions
from nbdist.engine.kernel.engine_calls import (
    called,
    evaluate,
    imported_from,
    layout_of,
    widget_event,
)
from nbdist.errors import NbdistError, SessionError, error_text, showable
from nbdist.spelling import Door, door, through
from nbdist.version import __version__

if TYPE_CHECKING:
    from nbdist.engine.frameworks.interfaces import Repairs, Steps
    from nbdist.engine.kernel.resident import Resident

Handler = Callable[..., Any]
"""A function of the engine's `Resident`, the call, and each buffer that comes with it.

It returns the answer, or a tuple of the answer and the buffers that go with it.
"""

PYTHON = ".".join(map(str, sys.version_info[:3]))

NUMBERS = ("NBDIST_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""The variables in which a launcher gives a process its number, in order of precedence."""

PREFIX = "nbdist."
"""The start of the labels of nbdist's calls; the name of the call follows."""


class SentCall:
    """A request to an engine; pickled as this class and a few strings.

    Args:
      name: The name of a call in `nbdist.contract.calls`.
      arguments: The call, as JSON.

    Attributes:
      label: The label of its request, by which an engine knows the call before it unpickles it.
      door: The interface the user works with (`nbdist.spelling.Door`); error texts use its syntax.
    """

    door = Door.PYTHON.value  # for a kernel that sends none

    def __init__(self, name: str, arguments: str) -> None:
        self.name = name
        self.arguments = arguments
        self.__name__ = self.label = f"{PREFIX}{name}"
        self.door = door().value

    def __call__(self, *buffers: bytes) -> Any:
        """Run the call on the engine.

        Returns:
          An object that ipyparallel sends without a pickle: its `buffers` are `[json, *buffers]`, where the JSON
          is a `nbdist.contract.calls.Reply`. `nbdist.launch.start.client` reads it.
        """
        # Imported here: kernels import this module to make calls, and need none of the engine's modules.
        from ipyparallel.serialize import PrePickled

        reply = PrePickled(None)
        with through(Door(self.door)):
            text, out = self._answer(buffers)
        reply.buffers = [text.encode(), *out]
        return reply

    def _answer(self, buffers: Sequence[bytes]) -> tuple[str, Sequence[Any]]:
        from nbdist.engine.kernel.resident import Resident

        try:
            found = by_name().get(self.name)
            if found is None:
                raise NbdistError(f"This engine's nbdist does not know the call {self.name!r}.")
            kind, handler = found
            call = contract.from_text(kind, self.arguments)
            resident = Resident.of()
            before = _sent(resident) if kind.GLANCES else None
            answer = handler(resident, call, *buffers)
            after = _sent(resident) if kind.GLANCES else None
            answer, *out = answer if isinstance(answer, tuple) else (answer,)
            reply = contract.Reply(ok=encode(answer), computed=after != before)
            return contract.reply_to_text(reply), out
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a failure here becomes a typed reply
            failed = contract.Failed(type=type(error).__name__, text=str(showable(error)))
            return contract.reply_to_text(contract.Reply(error=failed)), []


@cache
def by_name() -> Mapping[str, tuple[type[contract.Call[Any]], Handler]]:
    """Return each call and its handler, by the name of the call."""
    return {call.NAME: (call, handler) for call, handler in calls().items()}


def calls() -> Mapping[type[contract.Call[Any]], Handler]:
    """Return the handler of each call: the function with the call's name in the module that answers its kind."""
    from nbdist.engine.kernel import moving_calls

    here = sys.modules[__name__]
    answered_in = {
        engine: here,
        inspection: here,
        stepping: here,
        values: moving_calls,
        namespace: moving_calls,
    }
    return {
        call: getattr(handlers, call.NAME)
        for contracts, handlers in answered_in.items()
        for call in vars(contracts).values()
        if isinstance(call, type)
        and call.__module__ == contracts.__name__
        and issubclass(call, contract.Call)
        and not call.__parameters__  # type: ignore[attr-defined]
    }


def interruptible(label: str | None) -> bool:
    """Return whether a request with this label may be interrupted; requests that are not nbdist's always may."""
    if label is None or not label.startswith(PREFIX):
        return True
    found = by_name().get(label.removeprefix(PREFIX))
    return found is not None and found[0].INTERRUPTIBLE


def who(resident: Resident, call: engine.Who) -> engine.Described | engine.OtherNbdist:
    """Describe an engine that nbdist has not started, and how far its framework has started; change nothing."""
    from nbdist.machine.ports import own_address

    framework = frameworks.framework_named(call.framework)
    # Free the port that an earlier kernel asked for and never used.
    resident.reserved.close()
    (port,) = resident.reserved.reserve(1)
    cluster = framework.cluster()
    return engine.Described(
        protocol=PROTOCOL,
        nbdist=__version__,
        python=PYTHON,
        host=resident.host,
        pid=resident.pid,
        ident=resident.kernel.ident,
        settled=resident.process_id if resident.process_id >= 0 else None,
        numbers={n: int(os.environ[n]) for n in NUMBERS if os.environ.get(n, "").isdigit()},
        joined=cluster.joined(),
        up=cluster.is_up(),
        devices=cluster.devices(),
        version=framework.version(),
        address=own_address(call.controller),
        port=port,
    )


def prepare(resident: Resident, call: engine.Prepare) -> engine.Late:
    """Set environment variables that are not set yet; return those that come too late.

    A framework reads its own variables when it is imported. If it is imported already, its configuration is
    changed instead; variables without such a configuration come too late.
    """
    new = {name: value for name, value in call.environment.items() if name not in os.environ}
    os.environ.update(new)
    return engine.Late(names=tuple(frameworks.framework_named(call.framework).configure(new)))


def hello(resident: Resident, call: engine.Greet) -> engine.Greeted | engine.OtherNbdist:
    """Make this engine ready for cells; return its versions, its process id and where it runs."""
    resident.settle(
        process_id=call.process_id, framework_name=call.framework, interruptible=interruptible
    )
    answer_questions(resident)
    return engine.Greeted(
        protocol=PROTOCOL,
        nbdist=__version__,
        python=PYTHON,
        process_id=resident.process_id,
        host=resident.host,
        pid=resident.pid,
        ident=resident.kernel.ident,
    )


def initialize(resident: Resident, call: engine.Initialize) -> engine.Initialized:
    """Join the framework's cluster; block until all processes have joined."""
    framework = resident.framework
    answer = framework.initialize(resident, decode(framework.stage, call.stage))
    if resident.state is not None:
        resident.state.begin()
    return answer.after(engine.Initialized(version=framework.version()))


def complete(resident: Resident, call: engine.Complete) -> engine.Completions:
    """Return completions of the code at the cursor."""
    from IPython.core.completer import provisionalcompleter

    code, cursor = call.code, call.cursor
    completer = resident.shell.Completer
    # Jedi reads source files for seconds; the live namespace answers at once, and knows more.
    completer.use_jedi = False
    with provisionalcompleter():
        found = list(completer.completions(code, cursor))
    start = min((completion.start for completion in found), default=cursor)
    matches = (code[start : completion.start] + completion.text for completion in found)
    return engine.Completions(text=code[start:cursor], matches=tuple(matches))


def inspect(resident: Resident, call: engine.Inspect) -> engine.Inspected:
    """Return what IPython shows for `symbol?` or `symbol??`."""
    data = resident.shell.object_inspect_mime(call.symbol, detail_level=call.detail)
    texts = {mime: value for mime, value in data.items() if isinstance(value, str)}
    return engine.Inspected(data=texts)


def look(resident: Resident, call: engine.Look) -> engine.Looked:
    """Have the probe report now; return the number of the newest report."""
    probe = resident.probe
    if probe and call.again:
        probe.say_again()
    return engine.Looked(sequence=probe.look_now(timeout_s=call.timeout_s) if probe else 0)


def recall(resident: Resident, call: engine.Recall) -> engine.Recalled:
    """Return how the cell of a request ended, and what is kept of its output."""
    end = next((end for end in resident.ends if end.request == call.request), None)
    return engine.Recalled(end=end, kept=resident.echo.of(call.request))


def failure(resident: Resident, call: engine.AskLastFailure) -> engine.LastFailure:
    """Return the error of the last cell that failed here."""
    # IPython sets `sys.last_value` for %debug; failures outside of cells never get there.
    error = getattr(sys, "last_value", None)
    text = None if error is None else error_text(error).rstrip(": ")
    return engine.LastFailure(error=text)


def imported(resident: Resident, call: engine.AskImported) -> engine.ImportedModules:
    """Return the modules of this process that come from these files."""
    return engine.ImportedModules(modules=tuple(imported_from(call.paths)))


def agreement(resident: Resident, call: engine.AskAgreement) -> engine.Agreement:
    """Return what must be equal on all processes before a cell: digests of all facts, or some facts in full."""
    if call.topics is None:
        return engine.Agreement(digests=resident.agreement().digests(call.code))
    return engine.Agreement(facts=resident.agreement().facts(call.code, call.topics))


def shards(resident: Resident, call: inspection.FindShards) -> inspection.ArraysFound:
    """Return where the shards of an array lie, or of all arrays of a tree."""
    value = evaluate(resident, call.expression, number=call.number)
    inspection = resident.framework.inspection()
    return inspection.explain(value, call.expression, resident.process_id)


def nan(resident: Resident, call: inspection.CountNan) -> inspection.NanCounts:
    """Return counts of NaN and infinite values in this process's shards of a tree."""
    value = evaluate(resident, call.expression, number=call.number)
    return resident.framework.inspection().nan(value, call.expression)


def program(resident: Resident, call: inspection.CompileCall) -> inspection.ProgramFound:
    """Return the program that a call would run; compile it and do not run it."""
    function, arguments, named = called(resident, call.expression, number=call.number)
    inspection = resident.framework.inspection()
    return inspection.program(function, arguments, named, call.expression)


def summary(resident: Resident, call: inspection.Summarize) -> inspection.Summary:
    """Return a summary of the array at a path; its `state` is `missing` if there is no such array."""
    trees = frameworks.each(lambda one: one.trees)
    found = (one.summary(resident.shell.user_ns, call.path) for one in trees)
    return next((one for one in found if one is not None), inspection.Summary(state="missing"))


def widget(resident: Resident, call: inspection.UseWidget) -> Done:
    """Have a widget do what a person has asked of it."""
    message = {"data": call.data, "buffers": [base64.b64decode(one) for one in call.binary]}
    model = call.models.get(str(resident.process_id))
    widget_event(resident, model, message, number=call.number)
    return Done()


def layout(
    resident: Resident, call: inspection.FindLayout
) -> inspection.ModelFound | inspection.ArraysFound:
    """Return the layout of a model or layer; of any other value, where its arrays lie."""
    from nbdist.engine.probe.observer import NamespaceLook
    from nbdist.engine.probe.walk import Bounds

    expression = call.expression
    value = evaluate(resident, expression, number=call.number)
    look = NamespaceLook(
        frameworks.frameworks(),
        main_thread=threading.get_ident(),
        process_id=resident.process_id or 0,
        bounds=Bounds(),
    )
    if not look.has_layout(value):
        trees = (one.tree(value, expression) for one in frameworks.each(lambda one: one.trees))
        tree = next((one for one in trees if one is not None), None)
        if tree is not None:
            return tree
    return layout_of(value, expression, look)


def meet(resident: Resident, call: stepping.Meet) -> Done:
    """Take the ports at which the other processes accept connections for collectives."""
    if resident.step is not None:
        resident.step.meet(call.ports)
    return Done()


def step(resident: Resident, call: stepping.AskSent) -> stepping.Trail:
    """Return counts of the programs sent to devices of other processes since all were last in step."""
    return _step(resident).trail()


def refuse_earlier(resident: Resident, call: stepping.RefuseEarlier) -> Done:
    """Refuse cells and expressions with a lower number from now on."""
    resident.refuse_below(call.number)
    return Done()


def labels(resident: Resident, call: stepping.AskLabels) -> stepping.Labels:
    """Return the names and the collectives of the programs sent since all were last in step."""
    return _step(resident).labels()


def under_way(resident: Resident, call: stepping.AskUnderWay) -> stepping.UnderWay:
    """Return how many outputs are not computed yet, of the programs that all processes have sent."""
    return _step(resident).under_way(call.common)


def prove(resident: Resident, call: stepping.Prove) -> stepping.Proven:
    """Take part in the proof that all processes are in step."""
    return _step(resident).prove(call.number, timeout_s=call.timeout_s, compared=call.compared)


def versions(resident: Resident, call: stepping.AskVersions) -> stepping.Versions:
    """Return which program computed each array that lies on several processes."""
    return resident.framework.recovery().versions(resident)


def forget(resident: Resident, call: stepping.Forget) -> stepping.Forgotten:
    """Remove arrays whose shards do not belong together; return the other paths that are lost."""
    lost = resident.framework.recovery().forget(resident, call)
    return stepping.Forgotten(lost=tuple(lost))


def name_lost(resident: Resident, call: stepping.NameLost) -> Done:
    """Make the use of lost arrays an error that says why they were lost."""
    resident.framework.recovery().name_lost(resident, call.texts)
    return Done()


def save(resident: Resident, call: stepping.Save) -> stepping.SavedForRepair:
    """Begin a repair: copy what the back end holds."""
    resident.moving.end()  # a value on its way would keep arrays of the old back end
    # A repair that went further and then failed still has the copies from before.
    if resident.repair is None or resident.repair.saved is None or not resident.repair.begun:
        resident.repair = resident.framework.recovery().repair(resident)
        return resident.repair.save(call.common)
    return resident.repair.saved


def leave(resident: Resident, call: stepping.Leave) -> Done:
    """Continue a repair: take the back end down."""
    _repair(resident).leave()
    return Done()


def rejoin(resident: Resident, call: stepping.Rejoin) -> Done:
    """Continue a repair: join the other processes anew."""
    _repair(resident).rejoin(call.arguments)
    return Done()


def restore(resident: Resident, call: stepping.Restore) -> stepping.Restored:
    """End a repair: make all arrays anew, except lost ones."""
    restored = _repair(resident).restore(call.lost, call.unnamed, call.generation)
    resident.repair = None
    return restored


def _sent(resident: Resident) -> tuple[int, ...] | None:
    """Return counts of the programs sent to devices of other processes; None if nothing counts them."""
    if resident.step is None:
        return None
    sent = resident.step.sent()
    return (*sent.place, sent.programs, sent.parts)


def _step(resident: Resident) -> Steps:
    if resident.step is None:
        raise SessionError("This process takes part in no collectives of the session's.")
    return resident.step


def _repair(resident: Resident) -> Repairs:
    if resident.repair is None:
        raise SessionError("No repair has been begun on this process.")
    return resident.repair
