"""The fixes that the source holds: each literal that ends up as the fix of a problem or finding."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import final

from source_trees import SOURCES, nodes_of, tree_of

Function = ast.FunctionDef | ast.Lambda
_ANY = "\0"
"""In a literal: a value that is put in."""


@final
@dataclass(frozen=True, slots=True)
class FixLiteral:
    """A fix in the source; `text` has NUL where a value is put in."""

    file: str
    line: int
    text: str

    @property
    def pattern(self) -> re.Pattern[str]:
        pieces = (re.escape(piece) for piece in self.text.split(_ANY))
        return re.compile(".+?".join(pieces), re.DOTALL)

    @property
    def has_values(self) -> bool:
        return _ANY in self.text

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text.replace(_ANY, '{}')}"


@cache
def fix_literals() -> tuple[FixLiteral, ...]:
    """Every fix of the package, by file and line."""
    modules = [_Module(path) for path in SOURCES]
    takers = _Takers()
    for module in modules:
        if "fix: str" in module.text:
            takers.add_classes(module.tree)
    found: set[FixLiteral] = set()
    known = -1
    while known != len(takers.places):  # A function that hands its own parameter on takes one too.
        known = len(takers.places)
        for module in modules:
            if not takers.are_in(module.text):
                continue
            for call in module.calls:
                for value in takers.fixes_of(call):
                    found.update(_literals(value, module, takers, modules))
    return tuple(sorted(found, key=lambda one: (one.file, one.line, one.text)))


@final
class _Takers:
    """Functions and classes by name, and at which place each takes a fix."""

    def __init__(self) -> None:
        self.places: dict[tuple[str, str], int] = {}

    def add_classes(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef):
                continue
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            names = [one.target.id for one in fields if isinstance(one.target, ast.Name)]
            if "fix" in names:
                self.places[node.name, "fix"] = names.index("fix")

    def are_in(self, text: str) -> bool:
        """Whether a file may hand on a fix."""
        return "fix=" in text or any(f"{name}(" in text for name, _ in self.places)

    def add_parameter(self, function: ast.FunctionDef, name: str) -> None:
        names = [one.arg for one in (*function.args.args, *function.args.kwonlyargs)]
        at = names.index(name) - (names[0] in ("self", "cls"))
        self.places[function.name, name] = at

    def fixes_of(self, call: ast.Call) -> Iterator[ast.expr]:
        called = call.func
        callee = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
        for name, at in [(key, at) for (taker, key), at in self.places.items() if taker == callee]:
            yield from (one.value for one in call.keywords if one.arg == name)
            if at < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args):
                yield call.args[at]
        if callee == "replace":
            yield from (one.value for one in call.keywords if one.arg == "fix")


@final
@dataclass(frozen=True)
class _Module:
    path: Path

    @cached_property
    def owners(self) -> dict[ast.AST, ast.FunctionDef]:
        """The innermost function of each node."""
        owners: dict[ast.AST, ast.FunctionDef] = {}
        for node in nodes_of(self.path):
            if isinstance(node, ast.FunctionDef):
                owners.update(dict.fromkeys(ast.walk(node), node))
        return owners

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def tree(self) -> ast.Module:
        return tree_of(self.path)

    @property
    def name(self) -> str:
        return self.path.as_posix().rpartition("/trainwright/")[2]

    @cached_property
    def calls(self) -> list[ast.Call]:
        return [node for node in nodes_of(self.path) if isinstance(node, ast.Call)]

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        nodes = nodes_of(self.path)
        return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}


def _literals(
    value: ast.expr, module: _Module, takers: _Takers, modules: list[_Module], deep: int = 0
) -> Iterator[FixLiteral]:
    def more(part: ast.expr) -> Iterator[FixLiteral]:
        return _literals(part, module, takers, modules, deep + 1)

    assert deep < 12, ast.unparse(value)
    match value:
        case ast.Constant(value=str()) | ast.JoinedStr():
            if text := _text(value):
                yield FixLiteral(module.name, value.lineno, text)
        case ast.BinOp(left=left, right=right):
            text = _text(left) + _text(right)
            if text.strip(_ANY):
                yield FixLiteral(module.name, value.lineno, text)
            yield from (
                one for part in (left, right) if not _text(part).strip(_ANY) for one in more(part)
            )
        case ast.IfExp(body=body, orelse=other):
            yield from (*more(body), *more(other))
        case (
            ast.List(elts=values)
            | ast.BoolOp(values=values)
            | ast.Dict(values=values)
            | ast.Tuple(elts=values)
        ):
            for part in values:
                yield from more(part)
        case ast.Subscript(value=inside) | ast.NamedExpr(value=inside):
            yield from more(inside)
        case ast.Call(func=ast.Attribute(value=inside, attr="format")):
            for one in more(inside):
                yield FixLiteral(one.file, one.line, re.sub(r"\{\w*\}", _ANY, one.text))
        case ast.Call(func=ast.Attribute(value=inside, attr="get"), args=[_, default]):
            yield from (*more(inside), *more(default))
        case ast.Call(func=ast.Name(id=name)) if name in module.functions:
            for part in _returned(module.functions[name]):
                yield from more(part)
        case ast.Name(id=name):
            yield from _of_name(name, value, module, takers, modules, deep)


def _of_name(
    name: str, value: ast.AST, module: _Module, takers: _Takers, modules: list[_Module], deep: int
) -> Iterator[FixLiteral]:
    owner = module.owners.get(value)
    if owner and name in {one.arg for one in (*owner.args.args, *owner.args.kwonlyargs)}:
        takers.add_parameter(owner, name)
        return
    inside = list(_assigned(name, owner, modules)) if owner else []
    for part, home in inside or list(_assigned(name, module.tree, modules)):
        if not any(one is value for one in ast.walk(part)):
            yield from _literals(part, home or module, takers, modules, deep + 1)


def _assigned(
    name: str, where: ast.AST, modules: list[_Module]
) -> Iterator[tuple[ast.expr, _Module | None]]:
    """What a name is set to there, and the module if it is another one."""
    for node in ast.walk(where):
        match node:
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                part = _part(name, target, value)
            case ast.NamedExpr(target=target, value=value):
                part = _part(name, target, value)
            case (
                ast.For(target=target, iter=ast.Call(func=ast.Name(id=called)))
                | ast.comprehension(target=target, iter=ast.Call(func=ast.Name(id=called)))
                | ast.Assign(
                    targets=[ast.Tuple() as target], value=ast.Call(func=ast.Name(id=called))
                )
            ):
                for module in modules:
                    if f"def {called}(" in module.text:
                        for value in _returned(module.functions[called]):
                            if part := _part(name, target, value):
                                yield part, module
                continue
            case ast.Assign(targets=[target], value=value):
                part = _part(name, target, value)
            case ast.For(target=target, iter=ast.Tuple(elts=rows)):
                parts = [_part(name, target, row) for row in rows]
                yield from ((part, None) for part in parts if part)
                continue
            case _:
                continue
        if part:
            yield part, None


def _part(name: str, target: ast.expr, value: ast.expr) -> ast.expr | None:
    if isinstance(target, ast.Name):
        return value if target.id == name else None
    if isinstance(target, ast.Tuple) and isinstance(value, ast.IfExp):
        pieces = [_part(name, target, part) for part in (value.body, value.orelse)]
        kept = [piece for piece in pieces if piece]
        return ast.Tuple(elts=kept) if kept else None
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, part in zip(target.elts, value.elts, strict=False):
            if isinstance(one, ast.Name) and one.id == name:
                return part
    return None


def _returned(function: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            yield node.value


def _text(value: ast.expr) -> str:
    match value:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
    return _ANY


_KEYS = Path(__file__).parent / "architecture/contract_keys.txt"
_COMMAND = re.compile(r"(?<![\w-])(?:--?[a-z]|(?:trainwright|pip install|iconv|jq|mkdir|ls) )")


@cache
def _names_a_key() -> re.Pattern[str]:
    lines = _KEYS.read_text(encoding="utf-8").splitlines()
    keys = {line.split(" = ")[0].rpartition(".")[2] for line in lines}
    some_key = "|".join(sorted(keys, key=len, reverse=True))
    with_line = "|".join(key for key in keys if "_" in key)
    verbs = r"remove|lower|raise|change|write|set|halve|add|use|rename"
    return re.compile(
        rf"\b(?:data|training|model|metric|budget|resume|tracking|distributed|features)\.(?:\w|{_ANY})"
        rf"|\b(?:{some_key}): |\b(?:{with_line})\b"
        rf"|\b(?:{verbs}|or) (?:for example )?(?:{some_key})\b(?! [a-z])"
    )


def names_a_key_or_command(literal: FixLiteral) -> bool:
    return bool(_COMMAND.search(literal.text) or _names_a_key().search(literal.text))
