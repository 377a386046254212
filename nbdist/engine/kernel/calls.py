"""The one entry point through which a kernel calls an engine.

A call is sent as a name, JSON and raw buffers; its reply is JSON and raw buffers. A closure is never sent:
ipyparallel would send its byte code and run it against the engine's copy of the module. The types of the JSON
are in `nbdist.contract.calls`.
"""

from __future__ import annotations

import base64
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from nbdist.contract.calls import arrays, engine, stepping
from nbdist.contract.calls import call as contract
from nbdist.contract.calls import namespace as namespace_contract
from nbdist.contract.calls import saving as saving_contract
from nbdist.contract.calls import values as values_contract
from nbdist.contract.calls.call import PROTOCOL, Done
from nbdist.contract.wire import decode, encode
from nbdist.engine import frameworks
from nbdist.engine.cell.code_owners import error_text, showable
from nbdist.engine.kernel.answering import answer_questions
from nbdist.engine.kernel.kernel_gaps import LOOKS, PREFIX
from nbdist.engine.kernel.together import evaluate, widget_event
from nbdist.errors import NbdistError, SessionError
from nbdist.spelling import Door, door, through
from nbdist.version import __version__

if TYPE_CHECKING:
    from nbdist.engine.frameworks.interfaces import Repairs, Steps
    from nbdist.engine.kernel.resident import Resident

Buffers = Sequence[bytes | memoryview]
Handler = Callable[..., tuple[Any, list[Any]]]
"""A function of the engine's `Resident`, the buffers and the call; returns the answer and its buffers."""


class SentCall:
    """A request to an engine; pickled as this class and a few strings.

    Args:
      name: The name of a call in `nbdist.contract.calls`.
      arguments: The call, as JSON.

    Attributes:
      label: The label of its request, by which an engine knows the call before it unpickles it.
      door: How the person whose work this is reached nbdist; error texts name what to type there.
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
          is a `nbdist.contract.calls.call.Reply`. `nbdist.launch.start.client` reads it.
        """
        # Imported here: a kernel makes calls too, and needs neither this nor the engine's modules.
        from ipyparallel.serialize import PrePickled

        reply = PrePickled(None)
        with through(Door(self.door)):
            text, out = self._answer(buffers)
        reply.buffers = [text.encode(), *out]
        return reply

    def _answer(self, buffers: Buffers) -> tuple[str, list[Any]]:
        from nbdist.engine.kernel.resident import Resident

        try:
            found = by_name().get(self.name)
            if found is None:
                raise NbdistError(f"This engine's nbdist does not know the call {self.name!r}.")
            kind, handler = found
            call = contract.from_text(kind, self.arguments)
            resident = Resident.of()
            before = _sent(resident) if self.name in LOOKS else None
            answer, out = handler(resident, buffers, call)
            after = _sent(resident) if self.name in LOOKS else None
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
    """Return the handler of each call."""
    from nbdist.engine.kernel import namespace_calls as namespace
    from nbdist.engine.kernel import saving_calls as saving
    from nbdist.engine.kernel import value_calls as values

    return {
        engine.Who: who,
        engine.Prepare: prepare,
        engine.Hello: hello,
        engine.Initialize: initialize,
        engine.Complete: complete,
        engine.Inspect: inspect,
        engine.Look: look,
        engine.Recall: recall,
        engine.AskLastFailure: failure,
        engine.AskImported: imported,
        engine.AskAgreement: agreement,
        values_contract.Offer: values.offer,
        values_contract.AskStructure: values.structure,
        values_contract.AskDigests: values.digests,
        values_contract.AskNodes: values.nodes,
        values_contract.AskPreview: values.preview,
        values_contract.OpenMemories: values.open_memories,
        values_contract.Take: values.take,
        values_contract.Write: values.write,
        values_contract.Receive: values.receive,
        values_contract.Share: values.share,
        values_contract.Join: values.join,
        values_contract.Put: values.put,
        values_contract.Ready: values.ready,
        values_contract.SetNames: values.set_names,
        values_contract.LetGo: values.let_go,
        arrays.FindShards: shards,
        arrays.CountNan: nan,
        arrays.CompileCall: program,
        arrays.Summarize: summary,
        arrays.UseWidget: widget,
        arrays.FindLayout: layout,
        stepping.Meet: meet,
        stepping.AskSent: step,
        stepping.RefuseEarlier: refuse_earlier,
        stepping.AskLabels: labels,
        stepping.AskUnderWay: under_way,
        stepping.Prove: prove,
        stepping.AskVersions: versions,
        stepping.Forget: forget,
        stepping.Save: save,
        stepping.Leave: leave,
        stepping.Rejoin: rejoin,
        stepping.Restore: restore,
        namespace_contract.OfferThings: namespace.offer_things,
        namespace_contract.TakeThings: namespace.take_things,
        namespace_contract.OfferNamespace: namespace.offer_namespace,
        namespace_contract.PackAgain: namespace.pack_again,
        namespace_contract.AskUsed: namespace.used_names,
        namespace_contract.OfferArrays: namespace.offer_arrays,
        namespace_contract.ReceiveNamespace: namespace.receive_namespace,
        namespace_contract.CoverNamespace: namespace.cover_namespace,
        namespace_contract.MakeNamespace: namespace.make_namespace,
        saving_contract.OfferCopies: saving.offer_copies,
        saving_contract.ReceiveCopies: saving.receive_copies,
        saving_contract.KeepCopies: saving.keep_copies,
        saving_contract.UseCopies: saving.use_copies,
        saving_contract.OfferRound: saving.offer_round,
        saving_contract.ReceiveRound: saving.receive_round,
        saving_contract.GoBack: saving.go_back,
        saving_contract.SaveArrays: saving.save_arrays,
        saving_contract.ReadArrays: saving.read_arrays,
        saving_contract.SetRestored: saving.set_restored,
    }


def who(
    resident: Resident, buffers: Buffers, call: engine.Who
) -> tuple[engine.Described | engine.OtherNbdist, list[Any]]:
    """Return who this engine is, which somebody else has started, and how far its framework is."""
    from nbdist.engine.kernel.engine_calls import describe

    framework = frameworks.framework_named(call.framework)
    return describe(resident, framework, call.controller), []


def prepare(
    resident: Resident, buffers: Buffers, call: engine.Prepare
) -> tuple[engine.Late, list[Any]]:
    """Set environment variables that nobody has set yet; return those that come too late."""
    from nbdist.engine.kernel.engine_calls import prepare as put

    late = put(call.environment, frameworks.framework_named(call.framework))
    return engine.Late(names=tuple(late)), []


def hello(
    resident: Resident, buffers: Buffers, call: engine.Hello
) -> tuple[engine.Greeted | engine.OtherNbdist, list[Any]]:
    """Make this engine ready for cells; return its versions, its process id and where it runs."""
    resident.settle(process_id=call.process_id, framework_name=call.framework)
    answer_questions(resident)
    greeted = engine.Greeted(
        protocol=PROTOCOL,
        nbdist=__version__,
        python=".".join(map(str, sys.version_info[:3])),
        process_id=resident.process_id,
        host=resident.host,
        pid=resident.pid,
        ident=resident.kernel.ident,
    )
    return greeted, []


def initialize(
    resident: Resident, buffers: Buffers, call: engine.Initialize
) -> tuple[engine.Initialized, list[Any]]:
    """Join the framework's cluster; block until all processes have joined."""
    framework = resident.framework
    answer = framework.initialize(resident, decode(framework.stage, call.stage))
    if resident.state is not None:
        resident.state.begin()
    return answer.after(engine.Initialized(version=framework.version())), []


def complete(
    resident: Resident, buffers: Buffers, call: engine.Complete
) -> tuple[engine.Completions, list[Any]]:
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
    return engine.Completions(text=code[start:cursor], matches=tuple(matches)), []


def inspect(
    resident: Resident, buffers: Buffers, call: engine.Inspect
) -> tuple[engine.Inspected, list[Any]]:
    """Return what IPython shows for `symbol?` or `symbol??`."""
    data = resident.shell.object_inspect_mime(call.symbol, detail_level=call.detail)
    texts = {mime: value for mime, value in data.items() if isinstance(value, str)}
    return engine.Inspected(data=texts), []


def look(
    resident: Resident, buffers: Buffers, call: engine.Look
) -> tuple[engine.Looked, list[Any]]:
    """Have the probe report now; return the number of the newest report."""
    probe = resident.probe
    if probe and call.again:
        probe.say_again()
    return engine.Looked(sequence=probe.look_now(timeout_s=call.timeout_s) if probe else 0), []


def recall(
    resident: Resident, buffers: Buffers, call: engine.Recall
) -> tuple[engine.Recalled, list[Any]]:
    """Return how the cell of a request ended, and what is kept of its output."""
    end = next((end for end in resident.ends if end.request == call.request), None)
    return engine.Recalled(end=end, kept=resident.echo.of(call.request)), []


def failure(
    resident: Resident, buffers: Buffers, call: engine.AskLastFailure
) -> tuple[engine.LastFailure, list[Any]]:
    """Return the error of the last cell that failed here."""
    # IPython sets `sys.last_value` for %debug; failures outside of cells never get there.
    error = getattr(sys, "last_value", None)
    text = None if error is None else error_text(error).rstrip(": ")
    return engine.LastFailure(error=text), []


def imported(
    resident: Resident, buffers: Buffers, call: engine.AskImported
) -> tuple[engine.ImportedModules, list[Any]]:
    """Return the modules of this process that come from these files."""
    from nbdist.engine.kernel.engine_calls import imported

    return engine.ImportedModules(modules=tuple(imported(call.paths))), []


def agreement(
    resident: Resident, buffers: Buffers, call: engine.AskAgreement
) -> tuple[engine.Agreement, list[Any]]:
    """Return what must be equal on all processes before a cell: all digests, or the facts of some topics."""
    if call.topics is None:
        return engine.Agreement(digests=resident.agreement().digests(call.code)), []
    return engine.Agreement(facts=resident.agreement().facts(call.code, call.topics)), []


def shards(
    resident: Resident, buffers: Buffers, call: arrays.FindShards
) -> tuple[arrays.ArraysFound, list[Any]]:
    """Return where the shards of an array lie, or of all arrays of a tree."""
    value = evaluate(resident, call.expression, number=call.number)
    inspection = resident.framework.inspection()
    return inspection.explain(value, call.expression, resident.process_id), []


def nan(
    resident: Resident, buffers: Buffers, call: arrays.CountNan
) -> tuple[arrays.NanCounts, list[Any]]:
    """Return counts of NaN and infinite values in this process's shards of a tree."""
    value = evaluate(resident, call.expression, number=call.number)
    return resident.framework.inspection().nan(value, call.expression), []


def program(
    resident: Resident, buffers: Buffers, call: arrays.CompileCall
) -> tuple[arrays.ProgramFound, list[Any]]:
    """Return the program that a call would run; compile it and do not run it."""
    from nbdist.engine.kernel.engine_calls import called

    function, arguments, named = called(resident, call.expression, number=call.number)
    inspection = resident.framework.inspection()
    return inspection.program(function, arguments, named, call.expression), []


def summary(
    resident: Resident, buffers: Buffers, call: arrays.Summarize
) -> tuple[arrays.Summary, list[Any]]:
    """Return a summary of the array at a path; its `state` is `missing` if there is no such array."""
    trees = frameworks.each(lambda one: one.trees)
    found = (one.summary(resident.shell.user_ns, call.path) for one in trees)
    return next((one for one in found if one is not None), arrays.Summary(state="missing")), []


def widget(resident: Resident, buffers: Buffers, call: arrays.UseWidget) -> tuple[Done, list[Any]]:
    """Have a widget do what a person has asked of it."""
    message = {"data": call.data, "buffers": [base64.b64decode(one) for one in call.binary]}
    model = call.models.get(str(resident.process_id))
    widget_event(resident, model, message, number=call.number)
    return Done(), []


def layout(
    resident: Resident, buffers: Buffers, call: arrays.FindLayout
) -> tuple[arrays.ModelFound | arrays.ArraysFound, list[Any]]:
    """Return the layout of a model or layer; of any other value, where its arrays lie."""
    from nbdist.engine.kernel.engine_calls import layout_of
    from nbdist.engine.probe.look import NamespaceLook
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
            return tree, []
    return layout_of(value, expression, look), []


def meet(resident: Resident, buffers: Buffers, call: stepping.Meet) -> tuple[Done, list[Any]]:
    """Learn on which ports the other processes take connections of collectives."""
    if resident.step is not None:
        resident.step.meet(call.ports)
    return Done(), []


def step(
    resident: Resident, buffers: Buffers, call: stepping.AskSent
) -> tuple[stepping.Trail, list[Any]]:
    """Return what was sent to devices of other processes since all were last in step."""
    return _step(resident).trail(), []


def refuse_earlier(
    resident: Resident, buffers: Buffers, call: stepping.RefuseEarlier
) -> tuple[Done, list[Any]]:
    """Refuse cells and expressions with a lower number from now on."""
    resident.refuse_below(call.number)
    return Done(), []


def labels(
    resident: Resident, buffers: Buffers, call: stepping.AskLabels
) -> tuple[stepping.Labels, list[Any]]:
    """Return the names and the collectives of the programs sent since all were last in step."""
    return _step(resident).labels(), []


def under_way(
    resident: Resident, buffers: Buffers, call: stepping.AskUnderWay
) -> tuple[stepping.UnderWay, list[Any]]:
    """Return what is not computed yet of the programs that all processes have sent."""
    return _step(resident).under_way(call.common), []


def prove(
    resident: Resident, buffers: Buffers, call: stepping.Prove
) -> tuple[stepping.Proven, list[Any]]:
    """Take part in the proof that all processes are in step."""
    proven = _step(resident).prove(call.number, timeout_s=call.timeout_s, compared=call.compared)
    return proven, []


def versions(
    resident: Resident, buffers: Buffers, call: stepping.AskVersions
) -> tuple[stepping.Versions, list[Any]]:
    """Return which program computed each array that lies on several processes."""
    return resident.framework.recovery().versions(resident), []


def forget(
    resident: Resident, buffers: Buffers, call: stepping.Forget
) -> tuple[stepping.Forgotten, list[Any]]:
    """Remove arrays whose shards do not belong together; return the other paths that are lost."""
    recovery = resident.framework.recovery()
    lost = recovery.forget(resident, call.paths, call.unnamed, whole=call.whole)
    return stepping.Forgotten(lost=tuple(lost)), []


def save(
    resident: Resident, buffers: Buffers, call: stepping.Save
) -> tuple[stepping.SavedForRepair, list[Any]]:
    """Begin a repair: copy what the back end holds."""
    resident.moving.end()  # a value on its way would keep arrays of the old back end
    # A repair that went further and then failed still has the copies from before.
    if resident.repair is None or resident.repair.saved is None or not resident.repair.begun:
        resident.repair = resident.framework.recovery().repair(resident)
        return resident.repair.save(call.common), []
    return resident.repair.saved, []


def leave(resident: Resident, buffers: Buffers, call: stepping.Leave) -> tuple[Done, list[Any]]:
    """Continue a repair: take the back end down."""
    _repair(resident).leave()
    return Done(), []


def rejoin(resident: Resident, buffers: Buffers, call: stepping.Rejoin) -> tuple[Done, list[Any]]:
    """Continue a repair: join the other processes anew."""
    _repair(resident).rejoin(call.arguments)
    return Done(), []


def restore(
    resident: Resident, buffers: Buffers, call: stepping.Restore
) -> tuple[stepping.Restored, list[Any]]:
    """End a repair: make all arrays anew, except lost ones."""
    restored = _repair(resident).restore(call.lost, call.unnamed, call.generation)
    resident.repair = None
    return restored, []


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
