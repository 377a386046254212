"""Counts of how often each computation of a program runs: loop iterations multiplied, branches marked.

XLA for CPUs and GPUs writes the number of iterations beside a loop (`known_trip_count`); XLA for TPUs does not.
For TPUs it is computed from a counter that starts at a constant, grows by a constant in each iteration, and is
compared with a constant.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from nbdist.errors import ProgramError
from nbdist.program.hlo import FrameTables, Instruction, Invocation, Module, SourceLine

_KNOWN = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_INDEX = re.compile(r"\bindex=(\d+)")
_DIRECTION = re.compile(r"\bdirection=(\w+)")
_CALLED = re.compile(r"\b(body|condition|calls|to_apply)=%?([\w.\-]+)")
_INTEGER = re.compile(r"[su]\d+\[\]")
_SAME = ("copy", "bitcast", "convert", "reshape", "opt-barrier")
_DEPTH = 200


@dataclass(frozen=True, slots=True)
class _Number:
    """A constant; with `element`, the sum of that element of a loop's state and the constant."""

    value: int
    element: int | None = None


@dataclass(frozen=True, slots=True)
class _State:
    """The whole state of a loop, as a computation receives it."""


@dataclass(frozen=True, slots=True)
class _Tuple:
    """A tuple whose elements are evaluated on demand: a loop's state may have hundreds."""

    element: Callable[[int], _Value]


@dataclass(frozen=True, slots=True)
class _Compared:
    direction: str
    left: _Value
    right: _Value


_Value = _Number | _State | _Tuple | _Compared | None
"""The value of an instruction; None if it does not follow from constants and the state."""


class Loops:
    """The loops of a program, and the number of iterations of each."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._values: dict[tuple[str, str], _Value] = {}

    def turns(self, caller: str, loop: Instruction) -> int | None:
        """Return how often the body of a loop runs each time the loop is started; None if not known.

        Args:
          caller: The computation that has the loop.
          loop: Its `while`.
        """
        if known := _KNOWN.search(loop.attributes):
            return int(known[1])
        called = dict(_CALLED.findall(loop.attributes))
        if not {"body", "condition"} <= called.keys() or not loop.operands:
            return None
        test = self._value(called["condition"], "ROOT")
        if not isinstance(test, _Compared):
            return None
        begin = self._value(caller, loop.operands[0])
        for counter, limit, direction in (
            (test.left, test.right, test.direction),
            (test.right, test.left, _SWAPPED.get(test.direction, "")),
        ):
            turns = self._counted(caller, called["body"], begin, counter, limit, direction)
            if turns is not None:
                return turns
        return None

    def _counted(
        self, caller: str, body: str, begin: _Value, counter: _Value, limit: _Value, direction: str
    ) -> int | None:
        if not isinstance(counter, _Number) or counter.element is None:
            return None
        after = self._after(body, counter.element)
        if not isinstance(after, _Number) or after.element != counter.element:
            return None
        first = self._number(caller, _element(begin, counter.element))
        if isinstance(limit, _Number) and limit.element is not None:
            unchanged = self._after(body, limit.element) == _Number(0, limit.element)
            last = self._number(caller, _element(begin, limit.element)) if unchanged else None
            last = None if last is None else last + limit.value
        else:
            last = limit.value if isinstance(limit, _Number) else None
        if first is None or last is None:
            return None
        return _turns(first + counter.value, last, after.value, direction)

    def _after(self, body: str, element: int) -> _Value:
        """Return an element of the state at the end of an iteration, in terms of the state at its start."""
        return _element(self._value(body, "ROOT"), element)

    def _number(self, computation: str, value: _Value, depth: int = 0) -> int | None:
        """Return the value of a constant, or of a constant that an outer loop passes along unchanged."""
        if not isinstance(value, _Number) or value.element is None:
            return value.value if isinstance(value, _Number) else None
        calls = self._module.calls.get(computation, [])
        if len(calls) != 1 or calls[0].role != "body" or depth > _DEPTH:
            return None
        if self._after(computation, value.element) != _Number(0, value.element):
            return None
        outer = self._module.instruction_at(calls[0].start)
        if outer is None or outer.opcode != "while" or not outer.operands:
            return None
        begin = self._value(calls[0].caller, outer.operands[0])
        found = self._number(calls[0].caller, _element(begin, value.element), depth + 1)
        return None if found is None else found + value.value

    def _value(self, computation: str, name: str) -> _Value:
        key = (computation, name)
        if key not in self._values:
            self._values[key] = self._evaluated(computation, name, None, 0)
        return self._values[key]

    def _evaluated(
        self, computation: str, name: str, given: Callable[[int], _Value] | None, depth: int
    ) -> _Value:
        """Return the value of an instruction.

        Args:
          computation: The computation that has it.
          name: The instruction's name.
          given: Returns the computation's parameters by number; None if its parameter is a loop's state.
          depth: Depth of the recursion.
        """
        found = self._module.defined(computation, name)
        if found is None or depth > _DEPTH:
            return None

        def of(operand: str) -> _Value:
            return self._evaluated(computation, operand, given, depth + 1)

        operands = found.operands

        def nth(index: int) -> _Value:
            return of(operands[index]) if index < len(operands) else None

        match found.opcode:
            case "parameter":
                return _State() if given is None else given(int(found.inside))
            case "constant":
                return _constant(found)
            case "get-tuple-element" if index := _INDEX.search(found.attributes):
                return _element(of(operands[0]), int(index[1]))
            case "tuple":
                return _Tuple(nth)
            case "add" | "subtract":
                return _sum(of(operands[0]), of(operands[1]), found.opcode)
            case "compare" if direction := _DIRECTION.search(found.attributes):
                return _Compared(direction[1], of(operands[0]), of(operands[1]))
            case "fusion" | "call":
                called = dict(_CALLED.findall(found.attributes))
                callee = called.get("calls") or called.get("to_apply")
                if callee is None:
                    return None
                return self._evaluated(callee, "ROOT", nth, depth + 1)
            case opcode if opcode in _SAME and len(operands) == 1:
                return of(operands[0])
        return None


_SWAPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE"}


def _turns(first: int, last: int, step: int, direction: str) -> int | None:
    if direction == "LE":
        last, direction = last + 1, "LT"
    if direction == "GE":
        last, direction = last - 1, "GT"
    if direction == "GT":
        first, last, step, direction = -first, -last, -step, "LT"
    if direction != "LT" or step <= 0:
        return None
    return max(0, -(-(last - first) // step))


def _element(value: _Value, index: int) -> _Value:
    if isinstance(value, _State):
        return _Number(0, index)
    return value.element(index) if isinstance(value, _Tuple) else None


def _constant(found: Instruction) -> _Value:
    if not _INTEGER.match(found.type):
        return None
    try:
        return _Number(int(found.inside))
    except ValueError:
        return None


def _sum(left: _Value, right: _Value, opcode: str) -> _Value:
    if not isinstance(left, _Number) or not isinstance(right, _Number):
        return None
    if opcode == "subtract":
        return _Number(left.value - right.value, left.element) if right.element is None else None
    if left.element is not None and right.element is not None:
        return None
    element = left.element if left.element is not None else right.element
    return _Number(left.value + right.value, element)


@dataclass(frozen=True, slots=True)
class Times:
    """Number of times that a computation runs in one run of the program.

    Attributes:
      count: The number; None if the computation is in a loop with an unknown number of turns.
      branch: Whether `count` is an upper limit, since the computation is in a branch of a conditional.
    """

    count: int | None
    branch: bool = False


class Runs:
    """Counts for the computations of a program, found from their callers."""

    def __init__(self, module: Module, frames: FrameTables) -> None:
        self._module, self._frames = module, frames
        self._loops = Loops(module)
        self._times: dict[str, Times] = {module.entry: Times(1)}

    def times(self, computation: str) -> Times:
        """Return how often a computation runs.

        Raises:
          ProgramError: Nothing calls it, so the text is not the whole program.
        """
        if computation not in self._times:
            calls = self._module.calls.get(computation)
            if not calls:
                raise ProgramError(
                    f"In the text of the program {self._module.name} nothing calls the "
                    f"computation {computation!r}, so that it is not known how often it runs. "
                    "Give all of what compiled.as_text() returns."
                )
            # Found in place of endless recursion if a computation calls itself.
            self._times[computation] = Times(None)
            found = [self._called(call) for call in calls]
            counts = [each.count for each in found]
            self._times[computation] = Times(
                None if None in counts else sum(count for count in counts if count is not None),
                any(each.branch for each in found),
            )
        return self._times[computation]

    def _called(self, call: Invocation) -> Times:
        outer = self.times(call.caller)
        if call.role == "calls" and self._module.begins_with(call, "fusion"):
            return outer
        found = self._module.instruction_at(call.start)
        if found is None:
            return Times(None, outer.branch)
        if call.role == "branch":
            return Times(outer.count, True)
        if call.role in ("body", "condition") and found.opcode == "while":
            turns = self._loops.turns(call.caller, found)
            if turns is None or outer.count is None:
                return Times(None, outer.branch)
            return Times(outer.count * (turns + (call.role == "condition")), outer.branch)
        if found.opcode in ("fusion", "call", "async-start"):
            return outer
        if found.opcode in ("async-update", "async-done"):
            return Times(0)
        # A reduction runs its function once for each number; how often a custom call runs its function is not
        # known.
        return Times(None, outer.branch)

    def source(self, computation: str, attributes: str) -> SourceLine:
        """Return the source line of an instruction, or if it names none, of its fusion."""
        found = self._frames.source(attributes)
        while not found.operation and not found.file:
            calls = self._module.calls.get(computation, [])
            outer = self._module.instruction_at(calls[0].start) if len(calls) == 1 else None
            if outer is None or outer.opcode not in ("fusion", "call", "async-start"):
                break
            computation = calls[0].caller
            found = self._frames.source(outer.attributes)
        return found

    def caller_attributes(self, computation: str) -> str:
        """Return the text after the operands of a computation's only caller; empty if there is not just one."""
        calls = self._module.calls.get(computation, [])
        outer = self._module.instruction_at(calls[0].start) if len(calls) == 1 else None
        return outer.attributes if outer is not None else ""
