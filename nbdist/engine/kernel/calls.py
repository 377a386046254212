"""The one entry point through which a kernel asks something of an engine.

What travels is a name, JSON and raw buffers; what comes back is JSON and raw buffers. Never a closure:
ipyparallel would send its byte code and run it against the engine's copy of the module.
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nbdist.engine import frameworks
from nbdist.engine.cell.showable import error_text, showable
from nbdist.engine.kernel.labels import LOOKS, PREFIX
from nbdist.engine.kernel.together import evaluate, widget_event
from nbdist.errors import NbdistError, SessionError
from nbdist.spelling import Door, door, through
from nbdist.version import __version__

if TYPE_CHECKING:
    from nbdist.engine.frameworks.stepping import Repairs, Steps
    from nbdist.engine.kernel.resident import Resident

PROTOCOL = 5
"""Rises when a call changes its meaning; compared in the first message."""

Buffers = Sequence[bytes | memoryview]
Answer = tuple[dict[str, Any], list[Any]]


class Call:
    """A request by name; pickled as this class and strings.

    Args:
      name: A key of `CALLS`.
      arguments: Keyword arguments, as JSON.

    Attributes:
      label: Of its request, by which an engine knows it before it has unpickled it.
      door: Through which the person came whom the kernel asks for: an error speaks their language.
    """

    door = Door.PYTHON.value  # of a kernel that sends none

    def __init__(self, name: str, arguments: str) -> None:
        self.name = name
        self.arguments = arguments
        self.__name__ = self.label = f"{PREFIX}{name}"
        self.door = door().value

    def __call__(self, *buffers: bytes) -> Any:
        """Runs on the engine.

        Returns:
          What ipyparallel sends as it is, without a pickle: `buffers` of `[json, *buffers]`, where the JSON is
          `{"ok": …}` or `{"error": {"type", "text"}}`. `nbdist.launch.start.reply` reads it.
        """
        # Imported here: the kernel, which makes these, has no use for it; nor for what lives on an engine.
        from ipyparallel.serialize import PrePickled

        reply = PrePickled(None)
        with through(Door(self.door)):
            text, out = self._answer(buffers)
        reply.buffers = [text.encode(), *out]
        return reply

    def _answer(self, buffers: Buffers) -> tuple[str, list[Any]]:
        from nbdist.engine.kernel.resident import Resident

        try:
            known = calls()
            if self.name not in known:
                raise NbdistError(f"This engine's nbdist does not know the call {self.name!r}.")
            resident = Resident.of()
            before = _sent(resident) if self.name in LOOKS else None
            answer, out = known[self.name](resident, buffers, **json.loads(self.arguments))
            after = _sent(resident) if self.name in LOOKS else None
            computed = {"computed": True} if after != before else {}
            return json.dumps({"ok": answer, **computed}), out
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a failure here becomes a typed reply
            text = str(showable(error))
            return json.dumps({"error": {"type": type(error).__name__, "text": text}}), []


def calls() -> dict[str, Callable[..., Answer]]:
    """All that can be asked of an engine, by name."""
    from nbdist.engine.kernel import value_calls as values

    return {
        "who": who,
        "prepare": prepare,
        "hello": hello,
        "initialize": initialize,
        "complete": complete,
        "inspect": inspect,
        "look": look,
        "recall": recall,
        "failure": failure,
        "offer": values.offer,
        "structure": values.structure,
        "digests": values.digests,
        "nodes": values.nodes,
        "preview": values.preview,
        "open_memories": values.open_memories,
        "take": values.take,
        "write": values.write,
        "receive": values.receive,
        "share": values.share,
        "join": values.join,
        "put": values.put,
        "ready": values.ready,
        "set_names": values.set_names,
        "let_go": values.let_go,
        "shards": shards,
        "nan": nan,
        "summary": summary,
        "widget": widget,
        "layout": layout,
        "imported": imported,
        "agreement": agreement,
        "meet": meet,
        "step": step,
        "labels": labels,
        "under_way": under_way,
        "prove": prove,
        "versions": versions,
        "forget": forget,
        "save": save,
        "leave": leave,
        "rejoin": rejoin,
        "restore": restore,
    }


def who(
    resident: Resident, buffers: Buffers, *, framework: str, controller: str, ports: int
) -> Answer:
    """Who an engine is that nbdist has not started; see `nbdist.engine.kernel.foreign_engine`. Changes nothing."""
    from nbdist.engine.kernel.foreign_engine import describe

    return {
        "protocol": PROTOCOL,
        **describe(resident, frameworks.framework_named(framework), controller, ports),
    }, []


def prepare(
    resident: Resident, buffers: Buffers, *, environment: dict[str, str], framework: str
) -> Answer:
    """Puts variables in place that a process of our own has from its first moment."""
    from nbdist.engine.kernel.foreign_engine import prepare as put

    return {"late": put(environment, frameworks.framework_named(framework))}, []


def hello(
    resident: Resident, buffers: Buffers, *, process_id: int | None, framework: str
) -> Answer:
    """The first message: makes the engine ready and says who it is."""
    resident.settle(process_id=process_id, framework_name=framework)
    return (
        {
            "protocol": PROTOCOL,
            "nbdist": __version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "process_id": resident.process_id,
            "host": resident.host,
            "pid": resident.pid,
            "ident": resident.kernel.ident,
        },
        [],
    )


def initialize(resident: Resident, buffers: Buffers, **options: Any) -> Answer:
    """Joins the framework's cluster; blocks until all processes have."""
    framework = resident.framework
    answer = framework.initialize(resident, **options)
    return {"version": framework.version(), **answer}, []


def complete(resident: Resident, buffers: Buffers, *, code: str, cursor: int) -> Answer:
    """Completions of `code` at `cursor` (a position in characters).

    Returns:
      `text`, what stands there now, and the `matches` that may take its place.
    """
    from IPython.core.completer import provisionalcompleter

    completer = resident.shell.Completer
    # Jedi reads source files for seconds; the live namespace answers at once, and knows more.
    completer.use_jedi = False
    with provisionalcompleter():
        found = list(completer.completions(code, cursor))
    start = min((completion.start for completion in found), default=cursor)
    matches = [code[start : completion.start] + completion.text for completion in found]
    return {"text": code[start:cursor], "matches": matches}, []


def inspect(resident: Resident, buffers: Buffers, *, symbol: str, detail: int) -> Answer:
    """What IPython shows for `symbol?` (detail 0) or `symbol??` (detail 1), as a mime bundle."""
    data = resident.shell.object_inspect_mime(symbol, detail_level=detail)
    return {"data": {mime: value for mime, value in data.items() if isinstance(value, str)}}, []


def look(resident: Resident, buffers: Buffers, *, timeout_s: float, again: bool = False) -> Answer:
    """Has the probe report what there is now; answers the number of its newest report.

    With `again` it reports also what it has reported before.
    """
    probe = resident.probe
    if probe and again:
        probe.say_again()
    return {"sequence": probe.look_now(timeout_s=timeout_s) if probe else 0}, []


def recall(resident: Resident, buffers: Buffers, *, request: str) -> Answer:
    """How a cell ended, and what is kept of its output.

    It is asked for behind the cell itself, in the engine's queue, so that the answer comes when it has ended.

    Returns:
      `end` with `error` (None: it went through) and `time`, None where nothing is known of it; and what
      `nbdist.engine.cell.echo.Echo.of` answers.
    """
    end = next((end for end in resident.ends if end["request"] == request), None)
    return {"end": end, **resident.echo.of(request)}, []


def failure(resident: Resident, buffers: Buffers) -> Answer:
    """What the last cell that failed here raised: its `error`, None where none has."""
    # As IPython keeps it for %debug; what runs beside cells never gets there.
    error = getattr(sys, "last_value", None)
    text = None if error is None else error_text(error).rstrip(": ")
    return {"error": text}, []


def shards(
    resident: Resident,
    buffers: Buffers,
    *,
    expression: str,
    number: int | None = None,
) -> Answer:
    """Where the pieces of one array lie: the array as a report describes it, and its meshes."""
    value = evaluate(resident, expression, number=number)
    return resident.framework.explain(resident, value, expression), []


def nan(
    resident: Resident, buffers: Buffers, *, expression: str, number: int | None = None
) -> Answer:
    """NaN and infinite values in this process's pieces of a tree."""
    value = evaluate(resident, expression, number=number)
    return resident.framework.nan(value, expression), []


def summary(resident: Resident, buffers: Buffers, *, path: str) -> Answer:
    """What this process has of the array under a path; `state` is `missing` where there is none."""
    found = (one.summary(resident.shell.user_ns, path) for one in frameworks.imported())
    return next((one for one in found if one is not None), {"state": "missing"}), []


def widget(
    resident: Resident,
    buffers: Buffers,
    *,
    models: dict[str, str],
    data: dict[str, Any],
    binary: list[str],
    number: int | None = None,
) -> Answer:
    """What a person did to a widget in the notebook, for the processes in `models`; `binary` in Base64."""
    message = {"data": data, "buffers": [base64.b64decode(one) for one in binary]}
    widget_event(resident, models.get(str(resident.process_id)), message, number=number)
    return {}, []


def meet(resident: Resident, buffers: Buffers, *, ports: list[int]) -> Answer:
    """Learns on which ports the others take the connections of collectives."""
    if resident.step is not None:
        resident.step.meet(ports)
    return {}, []


def step(resident: Resident, buffers: Buffers) -> Answer:
    """What was sent to devices of other processes since all were last in step, and which programs these were."""
    return _step(resident).trail(), []


def labels(resident: Resident, buffers: Buffers) -> Answer:
    """The programs that were sent since all were last in step: what they are called, and their collectives."""
    return _step(resident).labels(), []


def under_way(resident: Resident, buffers: Buffers, *, common: int) -> Answer:
    """What is not computed yet of the programs that all processes have sent; see `Steps.under_way`."""
    return _step(resident).under_way(common), []


def prove(
    resident: Resident, buffers: Buffers, *, number: int, timeout_s: float, compared: bool = False
) -> Answer:
    """Takes part in the proof that all processes are in step; `number` is the same on all."""
    return _step(resident).prove(number, timeout_s=timeout_s, compared=compared), []


def versions(resident: Resident, buffers: Buffers) -> Answer:
    """Which program computed each array on several processes."""
    return resident.framework.versions(resident), []


def forget(
    resident: Resident, buffers: Buffers, *, paths: list[str], unnamed: list[list[Any]]
) -> Answer:
    """Takes arrays whose pieces do not belong together; answers which others could not be kept."""
    return {"lost": resident.framework.forget(resident, paths, unnamed)}, []


def save(resident: Resident, buffers: Buffers, *, common: int) -> Answer:
    """The first part of a repair; see `nbdist.engine.frameworks.stepping.Repairs`. Nothing is changed by it."""
    resident.moving.end()  # it would keep arrays of the old back end
    # One that got further, and failed, has what there was before.
    if resident.repair is None or not resident.repair.begun:
        resident.repair = resident.framework.repair(resident)
        return resident.repair.save(common), []
    return resident.repair.answer, []


def leave(resident: Resident, buffers: Buffers) -> Answer:
    """The second part of a repair: takes the back end down."""
    _repair(resident).leave()
    return {}, []


def rejoin(resident: Resident, buffers: Buffers, *, arguments: dict[str, Any]) -> Answer:
    """The third part of a repair: joins the others at a new service."""
    _repair(resident).rejoin(arguments)
    return {}, []


def restore(
    resident: Resident,
    buffers: Buffers,
    *,
    lost: list[str],
    unnamed: list[list[Any]],
    generation: int,
) -> Answer:
    """The last part of a repair: all is made anew."""
    answer = _repair(resident).restore(lost, unnamed, generation)
    resident.repair = None
    return {**answer, "ports": sorted(_step(resident).ports)}, []


def _sent(resident: Resident) -> list[Any]:
    """How many programs were sent to devices of other processes."""
    state = resident.step.state() if resident.step is not None else {}
    return [state.get(name) for name in ("generation", "serial", "programs", "parts")]


def _step(resident: Resident) -> Steps:
    if resident.step is None:
        raise SessionError("This process takes part in no collectives of the session's.")
    return resident.step


def _repair(resident: Resident) -> Repairs:
    if resident.repair is None:
        raise SessionError("No repair has been begun on this process.")
    return resident.repair


def imported(resident: Resident, buffers: Buffers, *, paths: list[str]) -> Answer:
    """Which modules of this process come from these files."""
    from nbdist.engine.kernel.imported_files import imported

    return {"modules": imported(paths)}, []


def layout(
    resident: Resident, buffers: Buffers, *, expression: str, number: int | None = None
) -> Answer:
    """The layout of one model or layer: the model as a report describes it, its meshes, what is set.

    Of anything else that holds arrays what `shards` answers.
    """
    from nbdist.engine.probe.layout import layout_of
    from nbdist.engine.probe.look import Look
    from nbdist.engine.probe.walk import Bounds

    value = evaluate(resident, expression, number=number)
    look = Look(
        frameworks.frameworks(),
        main_thread=threading.get_ident(),
        process_id=resident.process_id or 0,
        bounds=Bounds(),
    )
    if not look.has_layout(value):
        trees = (one.tree(value, expression) for one in frameworks.imported())
        tree = next((one for one in trees if one is not None), None)
        if tree is not None:
            return tree, []
    return layout_of(value, expression, look), []


def agreement(
    resident: Resident, buffers: Buffers, *, code: str, topics: list[str] | None
) -> Answer:
    """What must be equal on all processes before they run a cell; runs none of it.

    Returns:
      `digests` by topic, or with `topics` the `facts` of these; see `nbdist.engine.agreement.facts`.
    """
    if topics is None:
        return {"digests": resident.agreement().digests(code)}, []
    return {"facts": resident.agreement().facts(code, topics)}, []
