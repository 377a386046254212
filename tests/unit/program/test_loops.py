"""How many turns a loop takes, where the text says so and where it follows from its counter."""

from __future__ import annotations

import pytest

from nbdist.program.hlo import Module
from nbdist.program.runs import Loops

LOOP = """HloModule jit_f

%body (s: (s32[], f32[8])) -> (s32[], f32[8], s32[]) {{
  %s = (s32[], f32[8]{{0}}, s32[]) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %x = f32[8]{{0}} get-tuple-element(%s), index=1
  %n = s32[] get-tuple-element(%s), index=2
  %step = s32[] constant({step})
  %next = s32[] {grow}({counted}, %step)
  ROOT %t = (s32[], f32[8]{{0}}, s32[]) tuple({after}, %x, {kept})
}}

%condition (s: (s32[], f32[8])) -> pred[] {{
  %s.1 = (s32[], f32[8]{{0}}, s32[]) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  %n.1 = s32[] get-tuple-element(%s.1), index=2
  %end = s32[] constant({end})
  ROOT %less = pred[] compare({compared}), direction={direction}
}}

ENTRY %main (p: f32[8], q: s32[]) -> f32[8] {{
  %p = f32[8]{{0}} parameter(0)
  %q = s32[] parameter(1)
  %first = s32[] constant({first})
  %many = s32[] constant(9)
  %begin = (s32[], f32[8]{{0}}, s32[]) tuple({begins}, %p, {limit})
  ROOT %w = (s32[], f32[8]{{0}}, s32[]) while(%begin), condition=%condition, body=%body{known}
}}
"""
PLAIN = {
    "first": "0",
    "end": "6",
    "step": "1",
    "grow": "add",
    "counted": "%i",
    "after": "%next",
    "kept": "%n",
    "compared": "%i.1, %end",
    "direction": "LT",
    "begins": "%first",
    "limit": "%many",
    "known": "",
}


def turns(**changed: str) -> int | None:
    module = Module(LOOP.format(**{**PLAIN, **changed}))
    loop = module.defined("main", "w")
    assert loop is not None
    return Loops(module).turns("main", loop)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, 6),
        ({"first": "2"}, 4),
        ({"step": "4"}, 2),
        ({"direction": "LE"}, 7),
        ({"compared": "%end, %i.1", "direction": "GT"}, 6),
        ({"first": "5", "end": "-1", "step": "-1", "direction": "GT"}, 6),
        ({"first": "5", "end": "0", "grow": "subtract", "direction": "GE"}, 6),
        ({"end": "0"}, 0),
        # The limit is carried along unchanged.
        ({"compared": "%i.1, %n.1"}, 9),
        # What the compiler says counts.
        ({"known": ', backend_config={"known_trip_count":{"n":"5"}}'}, 5),
        # The limit, the beginning or the step are not known, or the counter does not count.
        ({"compared": "%i.1, %n.1", "kept": "%next"}, None),
        ({"compared": "%i.1, %n.1", "limit": "%q"}, None),
        ({"begins": "%q"}, None),
        ({"after": "%i"}, None),
        ({"after": "%n"}, None),
        ({"counted": "%n"}, None),
        ({"grow": "multiply"}, None),
        ({"step": "-1"}, None),
        ({"direction": "NE"}, None),
    ],
)
def test_turns_follow_from_the_counter_or_are_not_known(changed, expected):
    assert turns(**changed) == expected
