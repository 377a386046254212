"""Re-pointing of every reference in this process from old objects to their twins (Smalltalk's `become:`).

Immutable objects (tuples, frozen sets, slices, bound methods) that refer to an old object get twins of their own,
outwards until none is left. Then all objects that refer to an object with a twin are changed in place. Objects
that cannot be changed are found as stale afterwards (`Repair._stale`). Must run while no user code runs.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import ctypes
import functools
import gc
import types
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from nbdist.engine.frameworks.jax.repair.survey import (
    Survey,
    Twins,
    computes_hash,
    matters,
    mro,
    rehash,
    table_of,
    vars_of,
)

ROUNDS = 10
"""Most rounds; each follows frozen sets that are in keys of frozen sets one level outwards."""


def become(twins: Twins, survey: Survey) -> int:
    """Re-point all references; return how many were changed.

    Args:
      twins: The objects to replace; gets twins of immutable objects as well.
      survey: All objects whose class `matters`, found before any twin was made.
    """
    count = 0
    twins.survey = survey
    for _ in range(ROUNDS):
        changed: dict[int, Any] = {}
        for holder in _renew(twins):
            try:
                found = repoint(holder, twins)
            except Exception:  # noqa: BLE001 - a user's `__hash__` or `__eq__` raised; found as stale
                continue
            count += found
            if found:
                changed[id(holder)] = holder
        count += _contexts(twins)
        if not changed:
            break
        every = [*survey.wanted, *(one for one in twins.new if matters(type(one)))]
        _forget_lookups([one for one in every if issubclass(type(one), type)], changed)
        if not rehash(changed, [one for one in every if _computes_hash(one)], twins):
            break
    return count


def _renew(twins: Twins) -> list[Any]:
    """Add twins of immutable objects that lead to an object with a twin, inner ones first.

    Returns:
      The objects that refer to one with a twin, so that no second walk over the heap is needed.
    """
    waiting, holders = _unchangeable(twins)
    while waiting:
        before = len(waiting)
        for number, holder in list(waiting.items()):
            if all(id(child) not in waiting for child in gc.get_referents(holder)):
                del waiting[number]
                new = _renewal(type(holder))(holder, twins)  # type: ignore[misc]
                if new is not None:
                    twins.add(holder, new)
                    own = instance_dict(new)
                    if own:
                        holders.append(own)  # this `__dict__` was not there during the walk
        if len(waiting) == before:
            break  # a reference cycle, which only C can make: found as stale
    return [*holders, *twins.hidden_holders()]


def _unchangeable(twins: Twins) -> tuple[dict[int, Any], list[Any]]:
    """Return immutable objects that lead to an old one through such objects only, by id; and all referrers met."""
    found: dict[int, Any] = {}
    every: list[Any] = []
    holders = twins.holders()
    while holders:
        every += holders
        reached = [
            holder
            for holder in holders
            if id(holder) not in found
            and holder not in twins
            and _renewal(type(holder)) is not None
        ]
        found.update((id(holder), holder) for holder in reached)
        holders = twins.referrers(reached, found, every, holders) if reached else []
    return found, every


def _renewal(kind: type) -> Callable[[Any, Twins], Any] | None:
    """Return the function that makes the twin of an immutable object; None for objects of other classes."""
    return next((renew for base, renew in _RENEWALS if issubclass(kind, base)), None)


def _computes_hash(one: Any) -> bool:
    """Return whether an object that `matters` has a hash computed in Python: all but contexts and most classes."""
    kind = type(one)
    return computes_hash(kind) if issubclass(kind, type) else kind is not contextvars.Context


def _contexts(twins: Twins) -> int:
    """Re-point the variables of contexts; a context that another thread has entered is found as stale."""
    changed = _set_again(contextvars.copy_context(), twins)  # the context of this thread
    for one in twins.survey.wanted:
        if type(one) is contextvars.Context:
            with contextlib.suppress(RuntimeError):
                changed += one.run(_set_again, one, twins)
    return changed


def _set_again(context: contextvars.Context, twins: Twins) -> int:
    stale = [(variable, twins.of(value)) for variable, value in context.items() if value in twins]
    for variable, value in stale:
        variable.set(value)
    return len(stale)


def _forget_lookups(classes: Iterable[Any], changed: Mapping[int, Any]) -> None:
    """Clear the interpreter's cached attribute lookups of classes whose `__dict__` was changed."""
    for cls in classes:
        if not changed.keys().isdisjoint(map(id, gc.get_referents(vars_of(cls)))):
            ctypes.pythonapi.PyType_Modified(ctypes.c_void_p(id(cls)))


def repoint(holder: Any, twins: Twins) -> int:
    """Re-point the references of one object; return how many were changed."""
    # Never isinstance: it asks the object for its `__class__`, which may run code of the user's.
    kind = type(holder)
    if holder in twins or _renewal(kind) is not None:
        return 0
    changed = 0
    for base, change in _changes():
        if issubclass(kind, base):
            changed += change(holder, twins)
            break
    return changed + _attributes(holder, twins)


def _new_tuple(old: tuple[Any, ...], twins: Twins) -> tuple[Any, ...] | None:
    if len(gc.get_referents(old)) < tuple.__len__(old):
        return None  # a thread is filling the tuple: reading its empty places ends the process
    try:
        new = tuple.__new__(type(old), [twins.of(value) for value in tuple.__iter__(old)])
    except TypeError:  # a tuple class of C, such as os.stat_result: found as stale
        return None
    own = instance_dict(old)
    if own:
        instance_dict(new).update(own)  # type: ignore[union-attr]
    return new


def _new_frozenset(old: frozenset[Any], twins: Twins) -> frozenset[Any]:
    new: frozenset[Any] = frozenset.__new__(
        type(old), [twins.of(value) for value in frozenset.__iter__(old)]
    )
    return new


def _new_method(old: types.MethodType, twins: Twins) -> types.MethodType:
    return types.MethodType(twins.of(old.__func__), twins.of(old.__self__))


def _new_slice(old: slice, twins: Twins) -> slice:
    return slice(twins.of(old.start), twins.of(old.stop), twins.of(old.step))


def _mapping(holder: dict[Any, Any], twins: Twins) -> int:
    changed = 0
    items = list(dict.items(holder))
    if twins.any_in(key for key, _ in items):
        # All items are put in again, so that the order stays.
        renewed = [(twins.of(key), value) for key, value in items]
        if table_of(holder).refill(holder, renewed):
            changed += sum(
                new is not old for (new, _), (old, _) in zip(renewed, items, strict=True)
            )
            items = renewed
    for key, value in items:
        if value in twins:
            dict.__setitem__(holder, key, twins.of(value))
            changed += 1
    return changed


def _list(holder: list[Any], twins: Twins) -> int:
    changed = 0
    for index, value in enumerate(list.__iter__(holder)):
        if value in twins:
            list.__setitem__(holder, index, twins.of(value))
            changed += 1
    return changed


def _deque(holder: collections.deque[Any], twins: Twins) -> int:
    changed = 0
    for index, value in enumerate(list(collections.deque.__iter__(holder))):
        if value in twins:
            collections.deque.__setitem__(holder, index, twins.of(value))
            changed += 1
    return changed


def _set(holder: set[Any], twins: Twins) -> int:
    old = list(set.__iter__(holder))
    renewed = [(twins.of(value), None) for value in old]
    count = sum(value in twins for value in old)
    return count if count and table_of(holder).refill(holder, renewed) else 0


def _cell(holder: types.CellType, twins: Twins) -> int:
    try:
        value = holder.cell_contents
    except ValueError:
        return 0
    if value not in twins:
        return 0
    holder.cell_contents = twins.of(value)
    return 1


def _function(holder: types.FunctionType, twins: Twins) -> int:
    changed = 0
    for name in ("__defaults__", "__kwdefaults__"):
        value = getattr(holder, name)
        if value in twins:
            setattr(holder, name, twins.of(value))
            changed += 1
    return changed


def _partial(holder: functools.partial[Any], twins: Twins) -> int:
    parts = (holder.func, holder.args, holder.keywords)
    if not twins.any_in(parts) and not twins.any_in(holder.args):
        return 0
    arguments = tuple(twins.of(value) for value in holder.args)
    state = (twins.of(holder.func), arguments, holder.keywords, instance_dict(holder) or None)
    functools.partial.__setstate__(holder, state)  # type: ignore[attr-defined]
    return 1


def _error(holder: BaseException, twins: Twins) -> int:
    args: Any = BaseException.__dict__["args"]
    if (old := args.__get__(holder)) not in twins:
        return 0
    args.__set__(holder, twins.of(old))
    return 1


def _pointer(holder: ctypes.py_object[Any], twins: Twins) -> int:
    try:
        old = holder.value
    except ValueError:  # the pointer is null
        return 0
    if old not in twins:
        return 0
    holder.value = twins.of(old)
    return 1


def _array(holder: Any, twins: Twins) -> int:
    changed = 0
    frozen = not holder.flags.writeable
    if frozen:
        try:
            holder.flags.writeable = True
        except ValueError:  # a view of an array that cannot be written: found as stale
            return 0
    for index, value in enumerate(holder.flat):
        if value in twins:
            holder.flat[index] = twins.of(value)
            changed += 1
    if frozen:
        holder.flags.writeable = False
    return changed


def _generator(holder: Any, twins: Twins) -> int:
    """Re-point the variables of a suspended generator or coroutine; return how many were changed."""
    frame = next(
        (
            frame
            for name in ("gi_frame", "cr_frame", "ag_frame")
            if (frame := getattr(holder, name, None)) is not None
        ),
        None,
    )
    return 0 if frame is None else repoint_variables(frame, twins)


def repoint_variables(frame: types.FrameType, twins: Twins) -> int:
    """Re-point the variables of a function that is not running; return how many were changed."""
    variables = frame.f_locals
    stale = [name for name, value in variables.items() if value in twins]
    for name in stale:
        variables[name] = twins.of(variables[name])
    if stale and type(variables) is dict:  # before Python 3.13 `f_locals` is a copy
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
    return len(stale)


def instance_dict(holder: Any) -> MutableMapping[str, Any] | None:
    """Return the real `__dict__` of an object, whatever its class returns as `__dict__`; None if it has none."""
    generic = ctypes.pythonapi.PyObject_GenericGetDict
    generic.argtypes, generic.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.py_object
    try:
        # By address: ctypes would ask the object for attributes.
        found = generic(id(holder), None)
    except (AttributeError, TypeError, SystemError):
        return None
    return found if issubclass(type(found), dict) else None


def _attributes(holder: Any, twins: Twins) -> int:
    """Re-point an object's `__dict__` and slots, past any `__setattr__`; return how many were changed."""
    changed = 0
    if not issubclass(type(holder), type):
        own = instance_dict(holder)
        if own is not None:
            changed += _mapping(own, twins)  # type: ignore[arg-type]
    for cls in mro(type(holder)):
        for member in list(vars_of(cls).values()):
            if type(member) is types.MemberDescriptorType:
                changed += _slot(holder, member, twins)
    return changed


def _slot(holder: Any, member: types.MemberDescriptorType, twins: Twins) -> int:
    try:
        value = member.__get__(holder)
        if value not in twins:
            return 0
        member.__set__(holder, twins.of(value))
    except (AttributeError, TypeError):  # an empty slot, or a read-only member of a C class
        return 0
    return 1


@functools.cache
def _changes() -> list[tuple[Any, Callable[[Any, Twins], int]]]:
    import numpy

    return [
        (dict, _mapping),
        (list, _list),
        (collections.deque, _deque),
        (set, _set),
        (types.CellType, _cell),
        (types.FunctionType, _function),
        (functools.partial, _partial),
        (numpy.ndarray, _array),
        (BaseException, _error),
        (ctypes.py_object, _pointer),
        ((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType), _generator),
    ]


_RENEWALS: tuple[tuple[type, Callable[[Any, Twins], Any]], ...] = (
    (tuple, _new_tuple),
    (frozenset, _new_frozenset),
    (types.MethodType, _new_method),
    (slice, _new_slice),
)
