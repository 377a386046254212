"""Reports of a running probe: what is in them, how often they go out, and that nothing stops a cell."""

import gc
import logging
import os
import sys
import threading
import time
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from msgspec import structs

from nbdist.engine.probe import CALM_SECONDS, activity
from nbdist.engine.probe.activity import REPEAT_SECONDS, Pace, Sections
from nbdist.engine.probe.samples import READ, digest_of
from tests.builders.clock import Clock
from tests.builders.reports import running
from tests.engine.recording import recorded


@pytest.fixture
def names(mesh):
    w = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("data")))
    return {"w": w, "time": time, "jax": jax, "jnp": jnp, "mesh": mesh}


def test_the_first_report_has_every_section(names):
    with recorded(names) as seen:
        seen.wait(lambda: len(seen.reports) > 0)
    first = seen.reports[0]
    assert (first.process_id, first.sequence, first.host, first.pid) == (3, 1, "h1", os.getpid())
    assert first.activity.state == "idle"
    assert first.activity.rss_bytes > 1 << 20
    assert [device.id for device in first.devices] == [d.id for d in jax.local_devices()]
    assert [len(m.axes) for m in first.meshes] == [2]
    assert [(a.path, a.sharding.mesh) for a in first.arrays] == [("w", first.meshes[0].id)]
    assert first.arrays_omitted == 0


def test_a_busy_cell_is_reported_line_by_line_while_it_runs(names):
    source = (
        "\nwhile not reported(2):\n    pass\nwhile not reported(4, for_s=1.0): time.sleep(0.2)\n"
    )
    with recorded(names) as seen:
        seen.names["reported"] = seen.line
        began = time.monotonic()
        seen.run(source, number=12)
        lasted = time.monotonic() - began
        seen.wait(lambda: seen.activities()[-1].state == "idle")
    during = [a for a in seen.activities() if a.state == "running"]
    assert {a.cell for a in during} == {12}
    assert {a.line for a in during} - {3} == {2, 4}
    slept = [a for a in during if a.line == 4]
    assert slept[0].source == "while not reported(4, for_s=1.0): time.sleep(0.2)"
    # Blocked, but in a sleep: not inside the framework.
    assert not any(a.waiting for a in during)
    seconds = [a.cell_seconds for a in during]
    assert seconds == sorted(seconds)
    assert 1.0 <= seconds[-1] <= lasted
    assert seen.activities()[-1].cell is None


def test_arrays_made_in_the_middle_of_a_cell_are_reported_before_it_ends(names):
    with recorded(names) as seen:
        seen.names["reported"] = lambda path: seen.wait(lambda: path in (seen.paths() or ()))
        seen.run("inner = {'b': [jnp.ones(5)]}\nreported(\"inner['b'][0]\")\n")


def _until_calm(seen):
    seen.wait(
        lambda: seen.reports and time.monotonic() - seen.probe._changed_at > CALM_SECONDS + 0.3
    )


def test_an_idle_process_is_looked_at_once_a_second(names, monkeypatch):
    with recorded(names) as seen:
        looks, sections = [], seen.probe._sections
        due, sent = sections.due, sections.sent
        # Elsewhere in the process of the tests, arrays may still be collected.
        monkeypatch.setattr(sections, "sent", lambda *arguments: sent(*arguments) and False)
        _until_calm(seen)
        monkeypatch.setattr(sections, "due", lambda now: looks.append(now) or due(now))
        time.sleep(4)
    assert 1 <= len(looks) <= 5


def test_a_cell_is_seen_at_once_by_a_probe_that_waits_for_one(names, monkeypatch):
    monkeypatch.setattr("nbdist.engine.probe.IDLE_LOOK_SECONDS", 3600.0)
    with recorded(names) as seen:
        _until_calm(seen)
        time.sleep(0.3)
        seen.names["reported"] = seen.line
        seen.run("while not reported(1): pass\n")
        _until_calm(seen)
        time.sleep(0.3)
        seen.probe.look_now(timeout_s=60)
        assert seen.activities()[-1].state == "idle"


def test_names_are_known_as_a_cell_left_them_though_the_next_begins_at_once():
    with recorded() as seen:
        seen.cell.started(7, "x = 1", run=5)
        seen.names["x"] = 1
        seen.cell.finished()
        seen.cell.started(8, "x = 2", run=6)
        seen.names["x"] = 2
        seen.wait(lambda: any(r.samples for r in seen.reports))
        seen.cell.finished()
    first = next(r.samples for r in seen.reports if r.samples)
    assert (first.run, first.texts["x"]) == (5, digest_of(1))


def test_arrays_are_read_on_the_main_thread_alone_and_once_more_where_one_was_not_ready():
    asked, threads = [], []

    def values(array):
        threads.append(threading.current_thread())
        return "read" if len(threads) > 1 else None

    with recorded({"x": jnp.ones(3)}, values=values, on_main=asked.append) as seen:
        seen.cell.started(7, "x", run=5)
        seen.cell.finished()
        seen.wait(lambda: asked)
        asked.pop()()
        seen.wait(lambda: any(READ in r.samples.texts["x"] for r in seen.reports if r.samples))
    assert asked == []
    assert {*threads} == {threading.main_thread()}
    assert len(threads) == 2


def test_nothing_is_read_on_the_main_thread_while_a_repair_is_under_way():
    asked, read, repairing = [], [], True
    with recorded(
        {"x": jnp.ones(3)},
        values=lambda array: read.append(array) or "read",
        on_main=asked.append,
        resting=lambda: not repairing,
    ) as seen:
        seen.cell.newest_run = 5
        seen.wait(lambda: asked)
        asked.pop()()
        seen.probe.look_now(timeout_s=60.0)
        assert read == []
        seen.wait(lambda: asked)  # it is asked for again, until it is taken
        repairing = False
        asked.pop()()
        seen.wait(lambda: any(READ in r.samples.texts["x"] for r in seen.reports if r.samples))


def test_what_was_asked_before_the_first_cell_has_no_array_left_unread_after_it():
    names = {"x": jnp.ones(3)}
    with recorded(names, values=lambda array: "read", on_main=[].append) as seen:
        seen.probe.look_now(timeout_s=60.0)
        seen.cell.started(7, "x", run=5)
        seen.cell.finished()
        seen.wait(lambda: any(r.samples for r in seen.reports))
        time.sleep(0.5)  # so long nobody looks once more
    assert all(READ in r.samples.texts["x"] for r in seen.reports if r.samples)


def test_who_asks_has_arrays_waited_for():
    answers = [None, None, "read"]
    names = {"x": jnp.ones(3)}
    with recorded(names, values=lambda array: answers.pop(0), on_main=lambda call: None) as seen:
        seen.cell.newest_run = 5
        seen.probe.look_now(timeout_s=60.0)
        seen.wait(lambda: any(READ in r.samples.texts["x"] for r in seen.reports if r.samples))
    assert answers == []


def test_what_a_process_has_beside_names_is_reported_with_them():
    with recorded({"x": 1}, beside=lambda: {"a stream": 2}) as seen:
        seen.cell.started(7, "x", run=5)
        seen.cell.finished()
        seen.wait(lambda: any(r.samples for r in seen.reports))
    texts = next(r.samples.texts for r in seen.reports if r.samples)
    assert texts == {"x": digest_of(1), "a stream": digest_of(2)}


def test_compiling_is_not_taken_for_running(names):
    source = (
        "def big(x):\n    for i in range(300):\n        x = jnp.sin(x @ x) + i\n    return x\n"
        "y = jax.jit(big)(jnp.ones((64, 64)))\n"
    )
    with recorded(names) as seen:
        seen.run(source)
    compiling = [a for a in seen.activities() if a.state == "compiling"]
    assert compiling
    assert compiling[-1].line in (3, 5)
    assert not any(a.waiting for a in compiling)


def test_the_mesh_set_in_the_middle_of_a_cell_is_reported_and_listed(names):
    names["other"] = jax.make_mesh((8,), ("x",))
    source = (
        "with jax.set_mesh(other):\n    while not reported(2): time.sleep(0.05)\n"
        "while not reported(3): time.sleep(0.05)\n"
    )
    with recorded(names) as seen:
        seen.names["reported"] = seen.line
        seen.run(source)
        seen.wait(lambda: seen.activities()[-1].state == "idle")
    named = [a.context_mesh for a in seen.activities() if a.line == 2]
    after = [a.context_mesh for a in seen.activities() if a.line == 3]
    assert named[-1] is not None
    assert after[-1] is None
    listed = {m.id: m for r in seen.reports for m in r.meshes or ()}
    assert [axis.name for axis in listed[named[-1]].axes] == ["x"]


def test_at_most_ten_reports_a_second_and_each_section_again_within_two(names):
    with recorded(names) as seen:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            seen.run("for i in range(3):\n    time.sleep(0.01)\n    time.sleep(0.01)\n")
    gaps = np.diff(seen.times)
    assert len(seen.times) <= 51
    assert min(gaps) > 0.09
    assert [r.sequence for r in seen.reports] == list(range(1, len(seen.reports) + 1))
    for section in ("devices", "meshes", "arrays", "activity"):
        at = [t for t, r in zip(seen.times, seen.reports, strict=True) if getattr(r, section)]
        # Two seconds, and some patience for a loaded machine.
        assert max(np.diff([*at, end])) < 3, section


def test_what_has_not_changed_is_left_out_until_it_is_due_again():
    sections = Sections()
    sections.put("arrays", ["w"])
    earlier = running(line=3, cell_seconds=1.0, line_seconds=0.5, rss_bytes=5)
    later = structs.replace(earlier, cell_seconds=1.1, line_seconds=0.6, rss_bytes=6)
    sections.put_activity(earlier)
    assert set(sections.due(10.0)) == {"arrays", "activity"}
    sections.sent(sections.due(10.0), 10.0)
    sections.put("arrays", ["w"])
    sections.put_activity(later)
    assert sections.due(10.1) == {}
    assert sections.due(11.0) == {"activity": later}
    assert set(sections.due(10.0 + REPEAT_SECONDS)) == {"arrays", "activity"}
    sections.put_activity(structs.replace(earlier, line=4))
    sections.put("arrays", ["w", "b"])
    assert sections.due(10.2) == {
        "arrays": ["w", "b"],
        "activity": structs.replace(earlier, line=4),
    }


def test_a_section_that_could_not_be_published_stays_due():
    sections = Sections()
    sections.put("arrays", ["w"])
    assert sections.due(1.0) == sections.due(1.1) == {"arrays": ["w"]}


@pytest.mark.parametrize(
    ("share", "cost", "due_after"),
    [(0.1, 0.01, 0.1), (0.001, 0.05, 0.05 + 0.2)],  # one dear turn does not silence a process
)
def test_work_takes_no_more_than_its_share_of_the_time(share, cost, due_after, monkeypatch):
    clock = Clock()
    clock.thread_time = clock.monotonic
    monkeypatch.setattr(activity, "time", clock)
    pace = Pace(share=share, least_seconds=0.0, most_seconds=0.2)
    with pace.turn():
        clock.sleep(cost)
    clock.sleep(due_after - cost - 0.001)
    assert not pace.due()
    clock.sleep(0.002)
    assert pace.due()


def test_a_publish_that_blocks_for_ever_stops_no_cell(names):
    blocked, release = threading.Event(), threading.Event()

    def publish(report):
        blocked.set()
        release.wait()

    with recorded(names, publish=publish) as seen:
        assert blocked.wait(10)
        began = time.monotonic()
        for _ in range(100):
            seen.run("x = jnp.ones(3) + 1\nwith jax.set_mesh(mesh):\n    pass\n")
        assert time.monotonic() - began < 10
        seen.probe.stop(timeout_s=0.1)
        assert time.monotonic() - began < 10
        release.set()


def test_a_probe_that_fails_neither_ends_nor_runs_hot_nor_prints(names, capsys, caplog):
    calls = []

    def publish(report):
        calls.append(report)
        raise OSError("no such socket")

    caplog.set_level(logging.DEBUG, logger="nbdist.engine.probe")
    with recorded(names, publish=publish) as seen:
        time.sleep(2.5)
        assert 2 <= len(calls) <= 4
        # It goes on where it stood: nothing of what could not be sent is lost.
        assert {c.sequence for c in calls} == {1}
        seen.probe._publish = seen._take
        seen.wait(lambda: len(seen.reports) > 0)
    assert seen.reports[0].arrays is not None
    assert capsys.readouterr() == ("", "")
    assert "no such socket" in caplog.text


def test_a_failing_walk_does_not_silence_the_rest(names):
    def namespace():
        raise RuntimeError("no namespace")

    with recorded(names, namespace=namespace) as seen:
        seen.wait(lambda: len(seen.activities()) >= 2)
    assert all(r.arrays is None for r in seen.reports)


def test_the_probe_keeps_no_array_and_no_frame_of_the_cell(names):
    source = (
        "def hold():\n    local = jnp.ones(77)\n    watch(local)\n    time.sleep(0.5)\nhold()\n"
    )
    watched = []
    names["watch"] = lambda array: watched.append(weakref.ref(array))
    with recorded(names) as seen:
        names["b"] = jnp.ones(5)
        watched.append(weakref.ref(names["b"]))
        seen.wait_for_arrays("w", "b")
        seen.run(source)
        del names["b"]
        seen.wait_for_arrays("w")
        gc.collect()
        assert [ref() for ref in watched] == [None, None]


def test_threads_and_jax_are_as_before_when_it_has_stopped(names):
    before = vars(jax.set_mesh)["__init__"]
    with recorded(names) as seen:
        assert "nbdist-probe" in {thread.name for thread in threading.enumerate()}
        seen.probe.start()
        assert [t.name for t in threading.enumerate()].count("nbdist-probe") == 1
    assert "nbdist-probe" not in {thread.name for thread in threading.enumerate()}
    assert vars(jax.set_mesh)["__init__"] is before


def test_with_jax_absent_only_the_activity_has_something_to_say(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "jax"]:
        monkeypatch.delitem(sys.modules, name)
    with recorded({"x": 1}) as seen:
        seen.run("end = 1\n" * 3)
        seen.wait(lambda: len(seen.activities()) >= 2)
    assert (seen.reports[0].devices, seen.reports[0].arrays) == ((), ())
    assert "jax" not in sys.modules
