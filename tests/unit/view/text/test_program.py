"""A compiled program as text."""

from __future__ import annotations

from dataclasses import replace

from nbdist.contract.program import Buffer, Memory, Program
from nbdist.program.compiled import refused
from nbdist.view.text.program import line_text, program_text
from tests.unit.program.test_sent import collective

MEMORY = Memory(
    arguments=2 * 2**30, outputs=2**30, temporaries=2**30, aliased=2**30, code=0, limit=4 * 2**30
)
PROGRAM = Program(
    name="jit_step",
    fits=True,
    memory=MEMORY,
    collectives=(
        collective("all-gather", inserted=True, bytes=2**20, times=6, direction="forward"),
        collective(
            axes=None, devices="{0, 1}, {2, 3}", times=2, in_branch=True, file="a/b.py", line=3
        ),
        collective("all-to-all", axes=("data", "model"), times=None),
    ),
    flops=2e12,
    matmul_flops=19_300_000_000,
    loops=1,
    largest=(
        Buffer(bytes=2**20, array="f32[512,512]", file="b.py", line=4, operation="", name="x"),
    ),
    unread=("1 send",),
)

TEXT = """\
jit_step: fits, 3 GB of 4 GB on each device

arguments                         2 GB  ███████████████
outputs                           1 GB  ████████
temporaries                       1 GB  ████████
shared by arguments and outputs  −1 GB  ████████
together                          3 GB  ██████████████████████
limit                             4 GB  ██████████████████████████████

collective    along                   a device  times  gradient  line
all-gather *  data                        1 MB      6  forward
all-reduce    devices {0, 1}, {2, 3}       8 B    ≤ 2            b.py:3
all-to-all    data, model                  8 B      ?

along data: 6 MB a device in one run
along devices that are no axes: at most 16 B a device in one run
along data, model: 0 B a device in one run, and 1 collective of unknown times

* Put in by the compiler, since a value lies otherwise than its user needs it.

Not counted: 1 send.

matrix products: 19.3 G operations a device
as XLA counts, each loop's body once: 2 T operations a device

largest values
1 MB  f32[512,512]  b.py:4"""


def test_all_of_a_program_is_in_its_text():
    assert program_text(PROGRAM) == TEXT


def test_one_that_does_not_fit_says_so():
    small = replace(PROGRAM, fits=False, memory=replace(MEMORY, limit=2**30))
    assert program_text(small).startswith("jit_step: does not fit, 3 GB of 1 GB on each device\n")
    said = "Ran out of memory in memory space hbm. Used 18.2G of 15.5G hbm."
    refused_program = refused(said, "jit_step")
    assert refused_program is not None
    assert program_text(refused_program) == (
        f"jit_step does not fit, 18.2 GB of 15.5 GB on each device. The compiler:\n{said}"
    )


def test_what_is_not_known_is_not_shown():
    text = program_text(Program(name="jit_f", fits=True))
    assert text.strip() == (
        "jit_f: compiled; its memory is not known\n\nIts devices exchange nothing."
    )
    text = program_text(replace(PROGRAM, memory=replace(MEMORY, limit=None)))
    assert text.startswith("jit_step: 3 GB on each device\n")


def test_a_line_of_a_cell_is_said_to_be_one():
    assert line_text("/tmp/ipykernel_12/345.py", 4) == "cell, line 4"
    assert line_text("", 0) == ""


def test_no_line_is_wider_than_asked_for():
    wide = replace(PROGRAM, collectives=(collective(axes=None, devices="{0}, " * 40),))
    assert max(map(len, program_text(wide, width=60).splitlines())) == 60
