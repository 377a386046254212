"""Engines of others: what they say, what is refused, and what they keep of their output."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.calls import engine as contract
from nbdist.contract.calls.engine import Described, Initialized, Membership, Prepare, UsedDevices
from nbdist.contract.iopub import Kept, KeptMessage
from nbdist.contract.wire import encode
from nbdist.engine.cell import output as echoes
from nbdist.engine.cell.output import KeptOutput
from nbdist.engine.frameworks.jax import start
from nbdist.engine.kernel import calls
from nbdist.errors import GoneError, LaunchError, NbdistError, NotRunError, VersionError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.sessions import foreign
from nbdist.launch.sessions.foreign import _plan, _refuse, address_of
from nbdist.launch.start.pending import Pending
from nbdist.session.cells.attached_cell import RecalledEnd, raised
from nbdist.version import __version__
from tests.builders.described import reported


def refused(by_id: dict[int, Described], **options: Any) -> None:
    _refuse(_plan(by_id, None, None, options), by_id)


def test_engines_that_cannot_become_one_cluster_are_named_with_their_host() -> None:
    refused({0: reported(), 1: reported()})
    with pytest.raises(LaunchError, match=r"Process 1 \(host h2\) has no jax"):
        refused({0: reported(), 1: reported(host="h2", version=None)})
    with pytest.raises(
        LaunchError, match=r"Process 1 \(host h2\) has already started a JAX back end"
    ):
        refused({0: reported(), 1: reported(host="h2", up=True)})
    refused({0: reported(), 1: reported(host="h2", up=True)}, initialize=False)
    elsewhere = Membership(process_id=1, count=4)
    with pytest.raises(LaunchError, match=r"is process 1 of 4 in a JAX cluster already, but only"):
        refused({0: reported(), 1: reported(joined=elsewhere)})


@pytest.mark.parametrize(
    ("version", "kind"),
    [("0.0.1", VersionError), (__version__, NbdistError), (foreign.UNKNOWN, NbdistError)],
)
def test_an_engine_that_cannot_answer_is_asked_whether_its_version_is_another(
    monkeypatch: pytest.MonkeyPatch, version: str, kind: type[NbdistError]
) -> None:
    monkeypatch.setattr(foreign, "_evaluated", lambda client, engine, expression: version)
    failed = json.dumps({"error": {"type": "NbdistError", "text": "What is that?"}})
    result = SimpleNamespace(ready=lambda: True, get=lambda timeout: [failed])
    request: Any = Pending(contract.Who(framework="jax", controller=""), result, "engine 3")
    with pytest.raises(NbdistError) as raised:
        foreign._checked(None, 3, request)
    assert type(raised.value) is kind
    assert (version in str(raised.value)) is (kind is VersionError)


def test_engines_that_are_a_cluster_already_are_not_initialized_again() -> None:
    devices = UsedDevices(local=2, everywhere=4, platform="cpu")
    by_id = {
        p: reported(joined=Membership(process_id=p, count=2), up=True, devices=devices)
        for p in (0, 1)
    }
    refused(by_id)
    assert framework_named("jax").known(by_id) == {
        p: Initialized(process_id=p, version="0.10", local=2, everywhere=4, platform="cpu")
        for p in (0, 1)
    }
    assert framework_named("jax").known({0: reported(), 1: reported()}) == {}


def test_what_engines_compute_on_is_theirs_to_say_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    by_id = {0: reported(), 1: reported(host="h2")}
    plan = _plan(by_id, None, None, {})
    assert "JAX_PLATFORMS" not in plan.environment
    assert [(p.host, p.devices) for p in plan.processes] == [("h1", None), ("h2", None)]
    assert _plan(by_id, "cpu", 2, {}).environment["JAX_PLATFORMS"] == "cpu"


def test_the_address_of_a_controller_that_listens_everywhere_is_where_it_is() -> None:
    assert address_of({"interface": "tcp://10.0.0.1", "location": "h1"}) == "10.0.0.1"
    assert address_of({"interface": "tcp://*", "location": "h1"}) == "h1"


def test_a_cluster_that_was_joined_is_known_and_without_the_private_name_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = ModuleType("jax._src.distributed")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert start.joined() is None
    module.global_state = SimpleNamespace(client=None)  # type: ignore[attr-defined]
    assert start.joined() is None
    state = SimpleNamespace(client=object(), process_id=1, num_processes=3)
    module.global_state = state  # type: ignore[attr-defined]
    assert start.joined() == Membership(process_id=1, count=3)


def test_the_private_name_is_what_jax_has() -> None:
    from jax._src import distributed

    assert {"client", "process_id", "num_processes"} <= set(vars(type(distributed.global_state)))
    assert start.joined() is None


def test_variables_come_too_late_only_where_jax_has_no_such_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed: dict[str, object] = {}
    config = SimpleNamespace(jax_platforms=None, jax_x=None, update=changed.__setitem__)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(config=config))
    monkeypatch.setenv("SET_BEFORE", "1")
    for name in ("JAX_PLATFORMS", "JAX_X", "XLA_FLAGS_"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")  # so that it is taken back
        monkeypatch.delenv(name)
    asked = {"JAX_PLATFORMS": "cpu", "JAX_X": "true", "XLA_FLAGS_": "a", "SET_BEFORE": "2"}
    call: Any = Prepare(framework="jax", environment=asked)
    assert calls.prepare(None, call).names == ("XLA_FLAGS_",)  # type: ignore[arg-type]
    assert changed == {"jax_platforms": "cpu", "jax_x": True}


def frames(number: int, *, topic: bytes = b"engine.0.stdout", request: str = "r") -> list[bytes]:
    header = {"msg_id": f"m{number}", "msg_type": "stream"}
    parts = (header, {"msg_id": request}, {}, {"name": "stdout", "text": f"{number}\n"})
    return [topic, echoes.DELIMITER, b"sign", *(json.dumps(part).encode() for part in parts)]


def test_an_echo_keeps_the_newest_output_of_each_request_and_counts_what_it_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(echoes, "MOST_MESSAGES", 3)
    sent: list[Any] = []
    publisher = SimpleNamespace(send_multipart=sent.append)
    echo = KeptOutput(publisher)
    echo.install()
    for number in range(5):
        publisher.send_multipart(frames(number))
    publisher.send_multipart(frames(5, request="other"))
    publisher.send_multipart(frames(6, topic=b"nbdist.0"))
    publisher.send_multipart(frames(7, topic=b"engine.0.status"))
    assert len(sent) == 8  # all goes out as before
    kept = echo.of("r")
    assert [m.content["text"] for m in kept.messages] == ["3\n", "4\n"]
    assert kept.messages[0].id == "m3"
    assert kept.lost == {"r": 3}
    assert [m.parent for m in echo.of().messages] == ["r", "r", "other"]


def test_a_flood_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echoes, "MOST_BYTES", 2000)
    publisher = SimpleNamespace(send_multipart=lambda frames: None)
    KeptOutput(publisher).install()
    echo = KeptOutput(publisher)
    echo.install()
    for number in range(100):
        publisher.send_multipart(frames(number))
    assert 0 < len(echo.of().messages) < 20


class Answers:
    """Answers that come one after the other, as ipyparallel's results."""

    def __init__(self, *answers: object) -> None:
        self.left = list(answers)
        self.asked = 0

    def ask(self) -> Pending[contract.Recalled]:
        self.asked += 1
        answer = self.left.pop(0)

        def get(timeout: float | None) -> object:
            if isinstance(answer, Exception):
                raise answer
            return [json.dumps({"ok": encode(answer)})]

        result = SimpleNamespace(ready=lambda: True, get=get)
        return Pending(contract.Recall(request="r"), result, "process 0")


NOTHING_KEPT = Kept(messages=(), lost={})


def ended(error: str | None, *messages: KeptMessage) -> contract.Recalled:
    end = contract.CellEnd(request="r", error=error, time=5.0)
    return contract.Recalled(end=end, kept=Kept(messages=messages, lost={}))


def test_how_a_cell_ended_is_asked_again_when_a_failure_has_swept_the_question_away() -> None:
    end = ended(None)
    answers = Answers(NotRunError("process 1: not run"), end)
    received: list[Any] = []
    recalled = RecalledEnd(answers.ask, received.append)
    assert not recalled.replied
    assert recalled.replied
    assert (answers.asked, recalled.error(), received) == (2, None, [end])


def test_a_process_that_has_ended_is_asked_for_nothing_and_has_left_the_cell() -> None:
    def nobody() -> Pending[contract.Recalled]:
        raise GoneError("process 1 has ended.")

    recalled = RecalledEnd(nobody, lambda answer: None)
    assert recalled.replied
    assert str(recalled.error()) == "process 1 has ended."
    answers = iter([lambda: Answers(NotRunError("process 1: not run"), ended(None)).ask(), nobody])
    recalled = RecalledEnd(lambda: next(answers)(), lambda answer: None)
    assert recalled.replied  # it has ended before it was asked again


def test_a_cell_that_raised_has_its_own_traceback_and_one_nobody_knows_is_lost() -> None:
    shown = {"ename": "ValueError", "evalue": "bad", "traceback": ["a", "b"]}
    message = KeptMessage(id="m", parent="r", kind="error", content=shown)
    error = raised(ended("ValueError: bad", message))
    assert error is not None
    assert (error.ename, error.evalue, error.traceback) == ("ValueError", "bad", "a\nb")
    bare = raised(ended("ValueError: bad"))
    assert bare is not None
    assert (bare.ename, bare.evalue) == ("ValueError", "bad")
    unknown = RecalledEnd(
        Answers(contract.Recalled(end=None, kept=NOTHING_KEPT)).ask, lambda answer: None
    )
    assert unknown.replied
    assert "no record" in str(unknown.error())
