"""Code that must be alike on all processes: the names that a cell reads, and versions of the user's modules.

The names that a cell reads before it binds them are found from the cell's text alone. Nothing runs, so a name in a
branch, a loop or the body of a function is only possibly read. The user's modules are those with Python source
outside the folders of installed packages. A module's version is a digest of its functions and classes as they are
now.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.engine.probe.classes import NOTEBOOK, code_digest

CELL_MAGICS = frozenset({"capture", "prun", "time", "timeit"})
"""IPython's magics that run their text as Python."""


@dataclass(frozen=True, slots=True)
class Reads:
    """Dotted paths, such as `w` or `model.params`, as written in the text.

    `certain` paths are read in every run of the text. `possible` paths stand in a branch, a loop or a function's
    body.
    """

    certain: frozenset[str]
    possible: frozenset[str]


def names_read(source: str, expand: Callable[[str], str]) -> Reads:
    """Return the paths that Python text reads before it binds them; none where the text is not Python.

    Args:
      source: The text that IPython compiles, with magics rewritten to calls.
      expand: Rewrites the text inside a magic such as `%%time` in the same way.
    """
    reader = _Reader(expand)
    reader.text(source)
    later = {path for path in reader.later if _root(path) not in reader.bound}
    return Reads(frozenset(reader.certain), frozenset((reader.possible | later) - reader.certain))


def _root(path: str) -> str:
    return path.partition(".")[0]


class _Reader(ast.NodeVisitor):
    """Visitor of a text in the order in which it is evaluated.

    Attributes:
      bound: Names that the text has bound so far.
      later: Paths that functions' bodies read; a body runs when more names have been bound.
    """

    def __init__(self, expand: Callable[[str], str]) -> None:
        self.certain: set[str] = set()
        self.possible: set[str] = set()
        self.later: set[str] = set()
        self.bound: set[str] = set()
        self._expand = expand
        self._branches = 0

    def text(self, source: str) -> None:
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):
            return  # the cell fails on every process alike
        self.visit(tree)

    def _read(self, path: str) -> None:
        if _root(path) not in self.bound:
            (self.possible if self._branches else self.certain).add(path)

    def _all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _perhaps(self, *branches: Iterable[ast.AST]) -> None:
        """Visit branches that may all be skipped; names that one branch binds are not bound in the others."""
        before, after = self.bound, set(self.bound)
        self._branches += 1
        for branch in branches:
            self.bound = set(before)
            self._all(branch)
            after |= self.bound
        self._branches -= 1
        self.bound = after

    # -- names -----------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.bound.add(node.id)
        else:
            self._read(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = _dotted(node)
        if path is None:
            self.visit(node.value)
        else:
            self._read(path)

    def visit_alias(self, node: ast.alias) -> None:
        self.bound.add(node.asname or _root(node.name))
        if node.name == "*":
            self._binds_anything()

    def _binds_anything(self) -> None:
        """Treat all later reads as possible only: from here on the text may have bound any name."""
        self._branches += 1

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._all([node.pattern])
        self.bound |= {node.name} if node.name else set()

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self.bound |= {node.name} if node.name else set()

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        self.bound |= {node.rest} if node.rest else set()

    # -- statements whose fields are not in the order of evaluation ------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        self._all([node.value, *node.targets])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._all([node.value, node.annotation])
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        path = _dotted(node.target)
        if path is not None:
            self._read(path)
        self._all([node.value, node.target])

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._all([node.value, node.target])

    # -- what may run or not ---------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._perhaps(node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.test)
        self._perhaps([node.body], [node.orelse])

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._perhaps([*node.body, *node.orelse])

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._perhaps([node.target, *node.body, *node.orelse])

    visit_AsyncFor = visit_For

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        self._perhaps([*node.body, *node.orelse])
        for handler in node.handlers:
            self._perhaps([handler])
        self._all(node.finalbody)

    visit_TryStar = visit_Try

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._all([node.type])
        self.bound |= {node.name} if node.name else set()
        self._all(node.body)

    def visit_match_case(self, node: ast.match_case) -> None:
        self._perhaps([node.pattern, *([node.guard] if node.guard else []), *node.body])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.visit(node.values[0])
        self._perhaps(node.values[1:])

    def visit_Compare(self, node: ast.Compare) -> None:
        self._all([node.left, node.comparators[0]])
        self._perhaps(node.comparators[1:])

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        self._perhaps([node.msg] if node.msg else [])

    # -- scopes ----------------------------------------------------------------------------------

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._comprehension(node.generators, [node.elt])

    visit_SetComp = visit_ListComp
    visit_GeneratorExp = visit_ListComp

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node.generators, [node.key, node.value])

    def _comprehension(
        self, generators: list[ast.comprehension], elements: Iterable[ast.AST]
    ) -> None:
        self.visit(generators[0].iter)
        own = {name for one in generators for name in _stored(one.target)} - self.bound
        inner: list[ast.AST] = []
        for number, one in enumerate(generators):
            inner += [*([one.iter] if number else []), one.target, *one.ifs]
        self._perhaps([*inner, *elements])
        self.bound -= own

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node, node.args, [node.body])

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._all(node.decorator_list)
        self._function(node, node.args, node.body)
        self.bound.add(node.name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def _function(self, node: ast.AST, arguments: ast.arguments, body: Iterable[ast.AST]) -> None:
        self._all([*arguments.defaults, *arguments.kw_defaults])
        own = _stored(node)
        paths = {path for part in body for path in _loaded(part)}
        self.later |= {path for path in paths if _root(path) not in own}

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._all([*node.decorator_list, *node.bases, *(one.value for one in node.keywords)])
        before = set(self.bound)
        self._all(node.body)
        self.bound = before | {node.name}

    # -- magics ----------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        words = [one.value if isinstance(one, ast.Constant) else None for one in node.args]
        called = node.func.attr if isinstance(node.func, ast.Attribute) else None
        if called not in ("run_cell_magic", "run_line_magic") or not words:
            return
        if words[0] == "run":
            self._binds_anything()
        elif words[0] in CELL_MAGICS and isinstance(words[-1], str):
            self.text(self._expand(words[-1]))


def _dotted(node: ast.AST) -> str | None:
    """Return `"a.b.c"` for a name with attributes; None for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else None


def _loaded(node: ast.AST) -> set[str]:
    """Return all paths read anywhere below a node, whatever the scope; the longest of each."""
    path = _dotted(node)
    if path is not None:
        reads = not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Load)
        return {path} if reads else set()
    return {found for child in ast.iter_child_nodes(node) for found in _loaded(child)}


def _stored(node: ast.AST) -> set[str]:
    """Return all names bound anywhere below a node, whatever the scope, except those declared global."""
    found: set[str] = set()
    outer: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            found.add(one.id)
        elif isinstance(one, ast.arg):
            found.add(one.arg)
        elif isinstance(one, ast.alias):
            found.add(one.asname or _root(one.name))
        elif isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found |= {one.name} if one is not node else set()
        elif isinstance(one, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            found |= {one.name} if one.name else set()
        elif isinstance(one, ast.Global):
            outer |= set(one.names)
    return found - outer


@functools.cache
def _libraries() -> tuple[str, ...]:
    """Return the folders of the standard library and of installed packages."""
    import site
    import sysconfig

    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    found = {
        *(sysconfig.get_path(name) for name in kinds),
        *site.getsitepackages(),
        site.getusersitepackages(),
        # The folder of the interpreter from which a virtual environment was made.
        str(Path(os.__file__).parent),
    }
    return tuple(os.path.realpath(folder) + os.sep for folder in found)


class UsersModules:
    """The user's own modules, and which version of each this process runs.

    Any other module of `sys.modules` is tested once.
    """

    def __init__(self) -> None:
        self._others: set[str] = {"__main__", "__mp_main__"}

    def find(self) -> dict[str, types.ModuleType]:
        """Return imported modules with Python source outside the folders of installed packages, by name."""
        found = {}
        for name in sorted(sys.modules.keys() - self._others):
            module = sys.modules.get(name)
            if is_users(name, module):
                assert isinstance(module, types.ModuleType)
                found[name] = module
            else:
                self._others.add(name)
        return found

    def versions(self) -> dict[str, str]:
        """Return a digest of each module's functions and classes, equal where their code is equal."""
        modules = self.find()
        return {name: version(one, {NOTEBOOK, *modules}) for name, one in modules.items()}


def is_users(name: str, module: Any) -> bool:
    """Return whether a module comes from a Python file that was not installed."""
    file = getattr(module, "__dict__", {}).get("__file__")
    return (
        isinstance(module, types.ModuleType)
        and isinstance(file, str)
        and file.endswith(".py")
        and name.partition(".")[0] != "nbdist"
        and not _folder_of(file).startswith(_libraries())
    )


def _folder_of(file: str) -> str:
    """Return the real folder of a file: a tool may put a link to one of the user's files among the libraries."""
    real = os.path.realpath(file) if Path(file).is_symlink() else file
    return _folder(real.rpartition(os.sep)[0])


@functools.cache
def _folder(path: str) -> str:
    """Return the real path of a folder; hundreds of modules share one."""
    return os.path.realpath(path) + os.sep


def version(module: types.ModuleType, modules: Any) -> str:
    """Return a digest of a module's functions and classes as they are now; edits of its file do not count."""
    parts = []
    for name, value in sorted(vars(module).items()):
        digest = None if name.startswith("__") else code_digest(value, modules)
        if digest is not None:
            parts.append((name, digest))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
