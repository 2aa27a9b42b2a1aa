"""What may be changed in the core without any test noticing: `python -m tests.mutants [FILE …]`.

Every mutant is one small change: a comparison turned, a condition dropped, a number moved, an
argument or an entry of a table left out, a statement removed. The core's tests should notice it. Those that no test can tell from the original are listed in MUTANTS.md, each with the
reason; a survivor that is not listed, or a listed one that is none any more, fails the run.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import re
import resource
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from importlib.abc import Loader, MetaPathFinder
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Final, NamedTuple

import hypothesis.strategies  # noqa: F401 - imported once, before the mutants are forked
import msgspec  # noqa: F401 - as above
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

ROOT: Final = Path(__file__).parent.parent
LISTED: Final = Path(__file__).with_name("MUTANTS.md")
FILES: Final = tuple(
    f"sidecar/{name}.py"
    for name in ("policy", "life", "wording", "session", "phases", "turns", "fold", "witnesses", "deeds")
)
CORE: Final = (
    *("policy", "session", "fold", "fleet", "view"),
    *("policy_late", "rest", "believed", "family"),
)
TESTS: Final = tuple(f"tests/test_{name}.py" for name in CORE)
PYTEST: Final = (
    *("-x", "-q", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "--hypothesis-seed=0"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of what is imported above
    *("-W", "ignore::pytest.PytestUnraisableExceptionWarning"),  # of what a fork left open
)
SECONDS: Final = 60
"""Processor time of one mutant: one that loops for ever is noticed."""
MEMORY: Final = 4 << 30

SWAPPED: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
TYPES: Final = frozenset(("Literal", "list", "tuple", "dict"))
UNSEEN: Final = frozenset(("annotation", "returns", "decorator_list", "bases"))
REMOVED: Final = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.If, ast.For, ast.Continue, ast.Return)


class Mutant(NamedTuple):
    """One change: `new` stands where `old` stood in `field` of `parent`."""

    parent: ast.AST
    field: str
    place: int | None
    old: ast.AST
    new: ast.AST
    scope: str
    inside: bool
    """In a function's body: what importing the module does not evaluate."""

    @property
    def name(self) -> str:
        """How it is told, and listed."""
        return f"`{self.scope}`: `{_text(self.old)}` → `{_text(self.new)}`"

    def apply(self) -> None:
        if self.place is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.place] = self.new


def _text(node: ast.AST) -> str:
    return re.sub(r"\s+", " ", ast.unparse(ast.fix_missing_locations(node))).replace("`", "'")


def _is_none(node: ast.AST | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """The node with other fields."""
    return ast.copy_location(type(node)(**{**dict(ast.iter_fields(node)), **fields}), node)


def _without(items: Sequence[ast.AST], place: int) -> list[ast.AST]:
    return [*items[:place], *items[place + 1 :]]


def _values(node: ast.AST) -> Iterator[ast.AST]:
    """Other constants."""
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
            yield ast.Constant(value - 1)
        case ast.Constant(value=str(value)):
            yield ast.Constant(f"?{value}")


def _operators(node: ast.AST) -> Iterator[ast.AST]:
    """Other operators, and operands left out."""
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield _with(node, ops=[*ops[:place], SWAPPED[type(op)](), *ops[place + 1 :]])
        case ast.BoolOp(op=op, values=values):
            yield _with(node, op=SWAPPED[type(op)]())
            for place in range(len(values)):
                left = _without(values, place)
                yield _with(node, values=left) if len(left) > 1 else left[0]
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            yield _with(node, op=SWAPPED[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.If(test=test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))


def _calls(node: ast.AST) -> Iterator[ast.AST]:
    """Another function, and arguments left out."""
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Name) and node.func.id in NAMES:
        yield _with(node, func=ast.Name(NAMES[node.func.id], ast.Load()))
    for place, arg in enumerate(node.args):
        if not _is_none(arg):
            yield _with(node, args=[*node.args[:place], ast.Constant(None), *node.args[place + 1 :]])
    for place in range(len(node.keywords)):
        yield _with(node, keywords=_without(node.keywords, place))


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Entries, conditions and limits left out."""
    match node:
        case ast.Dict(keys=keys, values=values):
            for place in range(len(keys)):
                yield _with(node, keys=_without(keys, place), values=_without(values, place))  # type: ignore[arg-type]
        case ast.Tuple(elts=elts, ctx=ast.Load()) | ast.List(elts=elts) | ast.Set(elts=elts):
            for place in range(len(elts)):
                yield _with(node, elts=_without(elts, place))
        case ast.comprehension(ifs=ifs):
            for place in range(len(ifs)):
                yield _with(node, ifs=_without(ifs, place))
        case ast.Slice(lower=lower, upper=upper):
            yield from (
                _with(node, **{end: None}) for end, is_set in (("lower", lower), ("upper", upper)) if is_set
            )


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Statements removed, and values that are something else."""
    if isinstance(node, REMOVED) and not (isinstance(node, ast.Return) and node.value is not None):
        yield ast.Pass()
    match node:
        case ast.Return(value=value) if not _is_none(value):
            yield ast.Return(ast.Constant(None))
        case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
            yield _with(node, value=ast.Constant("?" if _is_none(value) else None))
        case ast.Continue():
            yield ast.Break()


def _skipped(node: ast.AST) -> bool:
    """What says nothing at run time: imports, docstrings, types and what is only for the checker."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Assign(value=ast.Subscript(value=ast.Name(id=name))):
            return name in TYPES
        case ast.Subscript(value=ast.Name(id="Literal")):
            return True
    return False


def mutants(parent: ast.AST, scope: str = "", *, inside: bool = False) -> Iterator[Mutant]:
    """Every mutant of a tree, from the top."""
    for field, value in ast.iter_fields(parent):
        if field in UNSEEN or (isinstance(parent, ast.ClassDef) and field == "keywords"):
            continue
        within = inside or (isinstance(parent, ast.FunctionDef) and field == "body")
        for place, node in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(node, ast.AST) or _skipped(node):
                continue
            inner = scope
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                inner = f"{scope}.{node.name}".lstrip(".")
            for news in (_values(node), _operators(node), _calls(node), _parts(node), _statements(node)):
                for new in news:
                    told = ast.copy_location(new, node)
                    yield Mutant(parent, field, place, node, told, inner or "module", within)
            yield from mutants(node, inner, inside=within)


class Mutated(Loader, MetaPathFinder):
    """Gives the mutant where the tests import the module."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name, self.tree = name, tree

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(_compiled(self.tree), module.__dict__)  # noqa: S102 - the tree is the project's own


def _compiled(tree: ast.Module) -> CodeType:
    return compile(ast.fix_missing_locations(tree), "mutant", "exec")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def _replace(module: ModuleType, tree: ast.Module) -> None:
    """Give every function of a module that is in use already the code that the tree says."""
    codes = {code.co_qualname: code for code in _codes(_compiled(tree))}
    owners = [module, *(x for x in vars(module).values() if isinstance(x, type))]
    for owner in owners:
        for value in vars(owner).values():
            function = value.fget if isinstance(value, property) else value
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                function.__code__ = codes[function.__qualname__]


class Trials:
    """Tries the mutants of one file. Every one is a process, forked where the tests are ready to run.

    What is evaluated when the module is imported needs tests that are imported after it.
    """

    def __init__(self, path: str, only: str, scratch: str) -> None:
        self.path, self.scratch = path, scratch
        self.module = path.removesuffix(".py").replace("/", ".")
        self.tree = ast.parse((ROOT / path).read_text())
        self.told = os.dup(1)
        self.alive: list[str] = []
        self.mutant = False
        seen: Counter[str] = Counter()
        self.mutants: list[tuple[str, Mutant]] = []
        for mutant in mutants(self.tree):
            seen[mutant.name] += 1
            name = mutant.name if seen[mutant.name] == 1 else f"{mutant.name} #{seen[mutant.name]}"
            if only in name:
                self.mutants.append((name, mutant))

    def run(self) -> None:
        """Try all; what the tests print of mutants is of no use."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        for name, mutant in [(name, m) for name, m in self.mutants if not m.inside]:
            if self._fork(name, mutant):
                sys.meta_path.insert(0, Mutated(self.module, self.tree))
                break
        status = 1
        with suppress(BaseException):  # whatever it is, the mutant was noticed
            own = f"tests/test_{Path(self.path).stem}.py"
            status = pytest.main([*PYTEST, *sorted(TESTS, key=lambda test: test != own)], plugins=[self])
        if self.mutant:
            os._exit(int(status))
        if status:
            sys.exit("the tests fail without any mutant")

    def _fork(self, name: str, mutant: Mutant) -> bool:
        """Fork; true in the child, which is the mutant. The parent waits and notes what came of it."""
        child = os.fork()
        if child == 0:
            self.mutant = True
            os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = self.scratch
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            mutant.apply()
        elif os.waitpid(child, 0)[1] == 0:
            self.alive.append(name)
            os.write(self.told, f"{self.path}:{getattr(mutant.old, 'lineno', 0)} {name}\n".encode())
        return child == 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Where the tests are ready. None: go on and run them."""
        session.items.sort(key=lambda item: item.get_closest_marker("hypothesis") is not None)
        if self.mutant:
            return None
        for name, mutant in [(name, m) for name, m in self.mutants if m.inside]:
            if self._fork(name, mutant):
                _replace(sys.modules[self.module], self.tree)
                return None
        return None


def listed(path: str) -> set[str]:
    """The mutants of a file that MUTANTS.md says cannot be told from the original."""
    text = LISTED.read_text() if LISTED.exists() else ""
    chapter = next((part for part in text.split("\n## ") if part.startswith(f"{path}\n")), "")
    return {line[2:].split(" — ")[0] for line in chapter.splitlines() if line.startswith("- ")}


def tried(path: str, only: str) -> bool:
    """Try a file's mutants in a process of its own; whether all that lives is listed."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    with tempfile.TemporaryDirectory() as scratch:
        trials = Trials(path, only, scratch)
        trials.run()
    known = {name for name in listed(path) if only in name}
    count, alive = len(trials.mutants), len(trials.alive)
    news, gone = [name for name in trials.alive if name not in known], known.difference(trials.alive)
    said = f"{path}: {count} mutants, {count - alive} killed, {alive} alive, {len(news)} of them not listed\n"
    said += "".join(f"  listed, but not alive: {name}\n" for name in sorted(gone))
    os.write(trials.told, said.encode())
    os._exit(bool(news or gone))


def main() -> int:
    """Run the mutants of the files that are named, by default of the core's that decide."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("files", nargs="*", default=FILES, metavar="FILE")
    options.add_argument("--only", default="", metavar="TEXT", help="only mutants that are told with TEXT")
    given = options.parse_args()
    os.chdir(ROOT)
    news = [path for path in given.files if not tried(path, given.only)]
    return int(bool(news))


if __name__ == "__main__":
    sys.exit(main())
