"""The two ways of reading another thread's stack: they say the same, and each is taken where it does no harm."""

import gc
import os
import queue
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import pytest

from nbdist.engine.cell import stacks as main_thread_module
from nbdist.engine.cell.stacks import (
    CodeOwners,
    MainThread,
    StackDump,
    StackEntry,
    dumped_stack,
    stack_of_frames,
    stack_reader,
)
from nbdist.engine.frameworks import frameworks

OWNERS = CodeOwners(frameworks())

CELL = "/tmp/ipykernel_17/482.py"
EARLIER = "/tmp/ipykernel_17/993.py"


def both_stacks(ident):
    """What both ways of reading say of a thread that stands still."""
    dump = StackDump()
    for _ in range(1000):
        before, dumped, after = stack_of_frames(ident), dump.read(ident), stack_of_frames(ident)
        if before == after:
            return before, dumped
    raise AssertionError("the thread never stood still")


def seen_from_another_thread():
    """Both stacks of the thread that calls this."""
    thread, found = threading.get_ident(), []
    observer = threading.Thread(target=lambda: found.append(both_stacks(thread)))
    observer.start()
    observer.join()
    return found[0]


@pytest.fixture
def both():
    """Runs code as of a file, and gives both stacks of it where it calls `look()`."""
    found = []
    names = {"look": lambda: found.append(seen_from_another_thread()), "jax": jax, "x": jnp.ones(3)}

    def run(source, filename=CELL):
        exec(compile(source, filename, "exec"), names)
        return found[-1] if found else None

    return run


def test_both_ways_agree_in_the_line_of_a_cell(both):
    frames, dumped = both("x = 0\n\nlook()\n")
    assert frames[:100] == dumped
    assert StackEntry(CELL, "<module>", 3) in dumped


def test_both_ways_agree_in_a_function_of_an_earlier_cell(both):
    both("def outer():\n    def inner():\n        look()\n    inner()\n", EARLIER)
    frames, dumped = both("x = 0\nouter()\n")
    assert frames[:100] == dumped
    at = dumped.index(StackEntry(CELL, "<module>", 2))
    assert dumped[at - 2 : at] == (StackEntry(EARLIER, "inner", 3), StackEntry(EARLIER, "outer", 4))


def test_both_ways_agree_while_compiling(both):
    frames, dumped = both("@jax.jit\ndef f(x):\n    look()\n    return x\nf(x)\n")
    assert frames[:100] == dumped
    assert OWNERS.is_compiling(frames)
    assert OWNERS.is_compiling(dumped)


def test_both_ways_agree_while_waiting_for_the_device_and_when_idle():
    release, begun, work = threading.Event(), threading.Event(), queue.SimpleQueue()

    def late(x):
        begun.set()
        release.wait()
        return x

    names = {"x": jnp.ones(3), "f": jax.jit(lambda x: jax.pure_callback(late, x, x))}

    def run():
        exec(compile("y = f(x)\ny.block_until_ready()\n", CELL, "exec"), names)
        work.get()

    worker = threading.Thread(target=run)
    worker.start()
    try:
        assert begun.wait(20)
        frames, dumped = both_stacks(worker.ident)
        assert frames == dumped
        assert {entry.line for entry in dumped if entry.filename == CELL} <= {1, 2}
        assert any(entry.filename == CELL for entry in dumped)
        release.set()
        while any(entry.filename == CELL for entry in dumped):
            frames, dumped = both_stacks(worker.ident)
        assert frames == dumped
        assert dumped[0].function == "run"
    finally:
        release.set()
        work.put(None)
        worker.join()


def test_both_ways_know_no_thread_that_has_ended():
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    alive = {thread.ident for thread in threading.enumerate()}
    unused = next(ident for ident in range(1, 10_000) if ident not in alive)
    for ident in {ended.ident, unused} - alive:
        assert stack_of_frames(ident) == StackDump().read(ident) == ()


def test_a_dump_has_the_innermost_hundred_entries():
    def deep(n):
        return deep(n - 1) if n else seen_from_another_thread()

    frames, dumped = deep(150)
    assert len(frames) > 150
    assert dumped == frames[:100]


@pytest.mark.parametrize("name", ["épreuve", "\x7f\t", "漢字", "😀", "\udc80", 'a", line 3 in b'])
def test_both_ways_read_any_file_name(both, name):
    filename = f"/tmp/ipykernel_1/{name}.py"
    frames, dumped = both("look()", filename)
    assert frames[:100] == dumped
    assert filename in {entry.filename for entry in dumped}


DUMP = """Thread 0x000000000000abcd (most recent call first):
  File "/a.py", line 5 in f
  ...

Current thread 0x00000000000000ab [probe] (most recent call first):
  Garbage-collecting
  File ???, line ??? in ???
  File "/b.py", line 7 in <module>

Thread 0x00000000000000cc (most recent call first):
  <no Python frame>

..."""


@pytest.mark.parametrize(
    ("ident", "expected"),
    [
        (0xABCD, (StackEntry("/a.py", "f", 5),)),
        (0xAB, (StackEntry("", "???", None), StackEntry("/b.py", "<module>", 7))),
        (0xCC, ()),
        (0xBCD, ()),
    ],
)
def test_a_thread_is_found_in_a_dump_by_its_whole_ident(ident, expected):
    assert dumped_stack(DUMP, ident) == expected


def test_frame_objects_are_made_only_where_python_survives_it(monkeypatch):
    assert stack_reader((3, 11, 5)) is stack_reader((3, 12, 0)) is stack_of_frames
    old = stack_reader((3, 11, 4))
    monkeypatch.delattr(main_thread_module.sys, "_current_frames")
    assert old(threading.get_ident())[-1] == StackDump().read(threading.get_ident())[-1]
    with pytest.raises(AttributeError):
        stack_of_frames(threading.get_ident())


LOOKS_AMONG_GARBAGE = """
import gc, random, threading
from nbdist.engine.cell.stacks import stack_of_frames

# Where in a round a collection starts is to vary.
chance = random.Random(0)
for _ in range(5000):
    gc.set_threshold(chance.randrange(1, 20))
    garbage = [threading.local()]
    garbage.append(garbage)
    del garbage
    assert stack_of_frames(threading.get_ident())
"""


def test_looking_never_meets_garbage_that_locks_the_threads():
    subprocess.run([sys.executable, "-c", LOOKS_AMONG_GARBAGE], check=True, timeout=60)


@pytest.mark.parametrize("collects", [True, False])
def test_looking_leaves_the_garbage_collector_as_it_was(collects, monkeypatch):
    def refuse():
        raise MemoryError

    was = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        assert stack_of_frames(threading.get_ident())
        assert gc.isenabled() is collects
        monkeypatch.setattr(main_thread_module.sys, "_current_frames", refuse)
        with pytest.raises(MemoryError):
            stack_of_frames(threading.get_ident())
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was else gc.disable)()


def test_a_main_thread_reads_its_stack_as_this_python_allows(monkeypatch):
    def innermost_here():
        return MainThread(threading.get_ident()).stack()

    assert "innermost_here" in {entry.function for entry in innermost_here()}
    monkeypatch.setattr(main_thread_module, "FRAME_OBJECTS_SINCE", (99,))
    monkeypatch.delattr(main_thread_module.sys, "_current_frames")
    assert "innermost_here" in {entry.function for entry in innermost_here()}


def test_nothing_is_read_of_a_longer_dump_before():
    dump, found = StackDump(), []
    for _ in range(2):
        found.append(dump.read(threading.get_ident()))
        # Where the next dump, as long as this one, will end.
        os.write(dump._file, b'  File "/before.py", line 1 in before\n')
    assert found[0] == found[1]


def test_a_dump_works_without_files_in_memory_and_closes_its_file(monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    dump = StackDump()
    assert dump.read(threading.get_ident())
    number = dump._file
    os.fstat(number)
    del dump
    with pytest.raises(OSError):
        os.fstat(number)
