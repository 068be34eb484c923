"""PTX text to entries with flat instruction lists (grammar: ptx.lark).

Two passes. Lark reads the text into raw statements; then, entry by entry, the nested `{ }` scopes
(each with registers, variables and labels of its own, PTX ISA §4.3 and §5.4) are flattened and
every name is resolved to what it stands for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedToken

from ..model.program import InputError
from .ptx_syntax import (
    TYPE_BITS,
    Address,
    Discard,
    Entry,
    Immediate,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    PtxInstruction,
    Register,
    Special,
    Symbol,
    Variable,
    Vector,
)

MAX_NESTING = 100

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DWARF = re.compile(r"^[ \t]*\.section\b", re.MULTILINE)
_SPECIAL = re.compile(
    r"%(n?tid|n?ctaid|n?clusterid|cluster_n?ctaid)\.[xyz]|%(n?warpid|n?smid|gridid|laneid"
    r"|cluster_n?ctarank|is_explicit_cluster|lanemask_(eq|le|lt|ge|gt)|clock(_hi|64)?"
    r"|globaltimer(_lo|_hi)?|dynamic_smem_size|total_smem_size|aggr_smem_size"
    r"|reserved_smem_offset_\w+|pm\d|envreg\d+)|WARP_SZ"
)


def parse_ptx(text: str, path: str = "") -> Module:
    """Parse a PTX file. `path` names it in errors."""
    lines = text.splitlines()
    _reject_other_formats(text, path)
    clean = _blank_comments(text, path)
    _check_nesting(clean, path)
    try:
        raw = _parser().parse(clean)
    except (UnexpectedToken, UnexpectedCharacters, UnexpectedEOF) as error:
        raise _syntax_error(error, path, lines) from None
    return _ModuleBuilder(path, lines, clean, raw).build()


def place(path: str, line: int, column: int = 0) -> str:
    """`file:line:column`, the way errors name a place."""
    return f"{path or 'ptx'}:{line}:{column}" if column else f"{path or 'ptx'}:{line}"


def _reject_other_formats(text: str, path: str) -> None:
    if not text.strip():
        raise InputError("the file is empty", path)
    if "\0" in text or text.startswith("\x7fELF"):
        raise InputError("this is a binary (a cubin?), not PTX text: use cuobjdump -ptx", path)


def _blank_comments(text: str, path: str) -> str:
    """Replace comments by blanks, and cut DWARF, so that all places stay where they were."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    clean = _COMMENT.sub(blank, text)
    opened = re.search(r'^[^"\n]*(/\*)', clean, re.MULTILINE)
    if opened:
        line = clean.count("\n", 0, opened.start(1)) + 1
        raise InputError("comment is never closed", place(path, line))
    dwarf = _DWARF.search(clean)
    return clean[: dwarf.start()] if dwarf else clean


def _check_nesting(text: str, path: str) -> None:
    depth = 0
    for match in re.finditer(r"[{}]", text):
        depth += 1 if match.group() == "{" else -1
        if depth > MAX_NESTING:
            line = text.count("\n", 0, match.start()) + 1
            raise InputError(f"scopes are nested deeper than {MAX_NESTING}", place(path, line))


_WANTED = {"OPCODE": ", expected an instruction", "SEMICOLON": ", expected ';'"}
"""What to hint at, by the token that the grammar would accept."""


def _syntax_error(error: Exception, path: str, lines: list[str]) -> InputError:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return InputError("the file ends in the middle of a kernel", place(path, len(lines)))
    if isinstance(error, UnexpectedToken):
        found = " ".join(str(error.token).split())[:30]
        wanted = next((text for name, text in _WANTED.items() if name in error.expected), "")
        where = place(path, error.line, error.column)
        return InputError(f"unexpected '{found}'{wanted}", where)
    if isinstance(error, UnexpectedCharacters):
        found = lines[error.line - 1][error.column - 1 :][:20].strip() or "character"
        return InputError(f"cannot read '{found}' as PTX", place(path, error.line, error.column))
    return InputError("the file ends in the middle of a kernel", place(path, len(lines)))


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = resources.files(__package__).joinpath("ptx.lark").read_text()
    return Lark(grammar, parser="lalr", transformer=_Raw(), maybe_placeholders=True)


# --- raw statements: names not resolved yet ------------------------------------------------------


@dataclass(frozen=True)
class _Name:
    """A name as written; `offset` is that of `name+8`."""

    text: str
    offset: int = 0


@dataclass
class _Declaration:
    space: str
    variables: list[Variable]
    families: list[tuple[str, int, str]]
    """`%r<5>`: prefix, count, type."""


@dataclass
class _Block:
    statements: list[object]


@dataclass
class _Statement:
    guard: Token | None
    opcode: Token
    operands: tuple[object, ...]
    end: int


@dataclass
class _Function:
    name: Token
    is_entry: bool
    parameters: list[Variable]
    tuning: dict[str, tuple[int, ...]]
    body: _Block | None


def _integer(token: str) -> int:
    """Hexadecimal, binary, octal (a leading 0) or decimal, perhaps with a U (PTX ISA §4.5.1)."""
    text = str(token).rstrip("U")
    return int(text, 8) if re.fullmatch(r"-?0\d+", text) else int(text, 0)


def _literal(token: Token) -> int | float:
    text = str(token)
    if token.type == "INTEGER":
        return _integer(text)
    return int(text[2:], 16) if text[1:2] in ("f", "F", "d", "D") else float(text)


class _Raw(Transformer[Token, object]):
    """Bottom-up actions of the grammar: they build raw statements while Lark parses."""

    def start(self, children: list[object]) -> list[object]:
        return [child for child in children if child is not None]

    def version(self, children: list[Token]) -> tuple[str, str]:
        return ("version", str(children[0]))

    def directive(self, children: list[object]) -> None:
        return None

    def declaration(self, children: list[object]) -> object:
        return children[-1]

    def ignored(self, children: list[object]) -> None:
        return None

    pragma = ignored

    def location(self, children: list[Token]) -> tuple[str, tuple[int, int, int]]:
        file, line, column = (_integer(token) for token in children[:3])
        return ("loc", (file, line, column))

    def space(self, children: list[Token]) -> tuple[str, str]:
        return ("space", children[0].lstrip(".").split("::")[0])

    def type(self, children: list[Token]) -> tuple[str, str]:
        return ("type", children[0].lstrip("."))

    def align(self, children: list[Token]) -> tuple[str, int]:
        return ("align", _integer(children[0]))

    def pointer(self, children: list[object]) -> tuple[str, bool]:
        return ("pointer", True)

    def extent(self, children: list[Token | None]) -> int:
        return -1 if children[0] is None else _integer(children[0])

    def declarator(self, children: list[object]) -> tuple[str, int | None, list[int]]:
        name, family, *extents, _initializer = children
        count = None if family is None else _integer(str(family))
        return (str(name), count, [extent for extent in extents if isinstance(extent, int)])

    def variable(self, children: list[object]) -> _Declaration:
        return _declare(children)

    parameter = variable

    def parameters(self, children: list[object]) -> list[Variable]:
        return [v for child in children if isinstance(child, _Declaration) for v in child.variables]

    def tuning(self, children: list[Token]) -> tuple[str, tuple[int, ...]]:
        return (children[0].lstrip("."), tuple(_integer(token) for token in children[1:]))

    def function(self, children: list[object]) -> _Function:
        kind, _results, name, parameters, *rest = children
        assert isinstance(name, Token)
        body = next((child for child in rest if isinstance(child, _Block)), None)
        tuning: dict[str, tuple[int, ...]] = dict(c for c in rest if isinstance(c, tuple))
        found = parameters if isinstance(parameters, list) else []
        return _Function(name, str(kind) == ".entry", found, tuning, body)

    def block(self, children: list[object]) -> _Block:
        return _Block([child for child in children[1:] if child is not None])

    def label(self, children: list[Token]) -> tuple[str, Token]:
        return ("label", children[0])

    def branch_targets(self, children: list[Token]) -> tuple[str, list[Token]]:
        return ("targets", children)

    def instruction(self, children: list[Any]) -> _Statement:
        guard, opcode, *operands, semicolon = children
        assert isinstance(opcode, Token) and isinstance(semicolon, Token)
        kept = tuple(operand for operand in operands if operand is not None)
        end = semicolon.end_pos or 0
        return _Statement(guard, opcode, kept, end)

    def name(self, children: list[Token]) -> object:
        return Discard() if children[0] == "_" else _Name(str(children[0]))

    def number(self, children: list[Token]) -> Immediate:
        return Immediate(_literal(children[0]))

    def offset(self, children: list[Token]) -> _Name:
        return _Name(str(children[0]), _integer(children[1]))

    def pair(self, children: list[Any]) -> Pair:
        return Pair(children[0], children[1])

    def negated(self, children: list[Token]) -> Negated:
        raw: Any = _Name(str(children[0]))
        return Negated(raw)

    def vector(self, children: list[Any]) -> Vector:
        return Vector(tuple(c for c in children[1:] if c is not None))

    def group(self, children: list[Any]) -> Vector:
        return Vector(tuple(c for c in children if c is not None))

    def address(self, children: list[Any]) -> Address:
        return Address(children[0], 0, tuple(children[1:]))


def _declare(children: list[object]) -> _Declaration:
    """One declaration: `.shared .align 8 .b64 full[4], empty[4];`"""
    attributes: dict[str, object] = {}
    length = 1
    declared: list[tuple[str, int | None, list[int]]] = []
    for child in children:
        assert isinstance(child, tuple)
        if len(child) == 3:
            declared.append(child)
        elif child[0] == "type" and str(child[1]).startswith("v"):
            length = int(str(child[1])[1:])
        else:
            attributes[child[0]] = child[1]
    space, kind = str(attributes["space"]), str(attributes.get("type", "b32"))
    families = [(name, count, kind) for name, count, _ in declared if count is not None]
    element = max(TYPE_BITS.get(kind, 64) // 8, 1) * length
    align = int(str(attributes.get("align", element)))
    pointer = bool(attributes.get("pointer"))
    variables = []
    for name, count, extents in declared:
        if count is None:
            size, dynamic = element, -1 in extents
            for extent in extents:
                size *= max(extent, 0)
            variables.append(Variable(name, space, kind, size, align, pointer, dynamic))
    return _Declaration(space, variables, families)


# --- scopes --------------------------------------------------------------------------------------


@dataclass
class _Scope:
    """One `{ }`: what its names mean. `suffix` keeps its registers apart from other scopes'."""

    parent: _Scope | None
    suffix: str
    registers: dict[str, Register] = field(default_factory=dict)
    families: list[tuple[str, int, str]] = field(default_factory=list)
    symbols: dict[str, Symbol] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    targets: dict[str, list[Token]] = field(default_factory=dict)

    def find(self, name: str) -> Operand | None:
        scope: _Scope | None = self
        while scope is not None:
            found = (
                scope.registers.get(name)
                or scope._family_member(name)
                or scope.symbols.get(name)
                or scope.labels.get(name)
            )
            if found is not None:
                return found
            scope = scope.parent
        return Special(name) if _SPECIAL.fullmatch(name) else None

    def _family_member(self, name: str) -> Register | None:
        match = re.fullmatch(r"(.*?)(0|[1-9]\d*)", name) if self.families else None
        if match is None:
            return None
        for prefix, count, kind in self.families:
            digits = name[len(prefix) :]
            if name.startswith(prefix) and digits.isdigit() and int(digits) < count:
                register = Register(name + self.suffix, kind)
                self.registers[name] = register
                return register
        return None


class _ModuleBuilder:
    def __init__(self, path: str, lines: list[str], text: str, raw: object) -> None:
        self.path, self.lines, self.text = path, lines, text
        assert isinstance(raw, list)
        self.raw: list[object] = raw

    def build(self) -> Module:
        module = Module(self.path, self.lines, "", {}, [])
        outer = _Scope(None, "")
        for item in self.raw:
            if isinstance(item, _Declaration):
                module.variables += item.variables
                outer.symbols |= {v.name: Symbol(v.name) for v in item.variables}
            elif isinstance(item, _Function):
                outer.symbols[str(item.name)] = Symbol(str(item.name))
                if item.is_entry and item.body is not None:
                    entry = _EntryBuilder(self, item, outer).build()
                    module.entries[entry.name] = entry
            elif isinstance(item, tuple) and item[0] == "version":
                module.version = str(item[1])
        return module


class _EntryBuilder:
    """Flattens the scopes of one entry, then resolves the names of its instructions."""

    def __init__(self, module: _ModuleBuilder, function: _Function, outer: _Scope) -> None:
        self.module, self.function = module, function
        self.entry = Entry(
            str(function.name), function.name.line or 0, function.parameters, function.tuning
        )
        self.outer = _Scope(outer, "")
        self.outer.symbols = {v.name: Symbol(v.name) for v in function.parameters}
        self.pending: list[tuple[_Statement, _Scope]] = []
        self.loc: tuple[int, int, int] | None = None
        self.locs: list[tuple[int, int, int] | None] = []
        self.scopes = 0

    def build(self) -> Entry:
        assert self.function.body is not None
        self._flatten(self.function.body, self.outer)
        for index, (statement, scope) in enumerate(self.pending):
            instruction = self._resolve(statement, scope)
            instruction.index, instruction.loc = index, self.locs[index]
            self.entry.instructions.append(instruction)
        return self.entry

    def _flatten(self, block: _Block, scope: _Scope) -> None:
        latest = ""
        for statement in block.statements:
            if isinstance(statement, _Statement):
                self.pending.append((statement, scope))
                self.locs.append(self.loc)
            elif isinstance(statement, _Block):
                self.scopes += 1
                self._flatten(statement, _Scope(scope, f"~{self.scopes}"))
            elif isinstance(statement, _Declaration):
                self._add_names(statement, scope)
            elif isinstance(statement, tuple) and statement[0] == "label":
                latest = statement[1].rstrip(":").rstrip()
                if latest in scope.labels:
                    raise InputError(f"label {latest} is defined twice", self._at(statement[1]))
                scope.labels[latest] = Label(latest, (len(self.pending),))
            elif isinstance(statement, tuple) and statement[0] == "targets":
                scope.targets[latest] = statement[1]
            elif isinstance(statement, tuple) and statement[0] == "loc":
                self.loc = statement[1]
        self._resolve_targets(scope)

    def _resolve_targets(self, scope: _Scope) -> None:
        for name, tokens in scope.targets.items():
            found: list[int] = []
            for token in tokens:
                label = scope.find(str(token))
                if not isinstance(label, Label):
                    raise InputError(f"label {token} is not defined", self._at(token))
                found += label.targets
            scope.labels[name] = Label(name, tuple(found))

    def _add_names(self, declaration: _Declaration, scope: _Scope) -> None:
        if declaration.space == "reg":
            scope.families += declaration.families
            for variable in declaration.variables:
                register = Register(variable.name + scope.suffix, variable.type)
                scope.registers[variable.name] = register
            return
        for variable in declaration.variables:
            scope.symbols[variable.name] = Symbol(variable.name)
            self.entry.variables.append(variable)

    def _at(self, token: Token) -> str:
        return place(self.module.path, token.line or 0, token.column or 0)

    def _resolve(self, statement: _Statement, scope: _Scope) -> PtxInstruction:
        start = statement.guard if statement.guard is not None else statement.opcode
        at = self._at(start)
        text = " ".join(self.module.text[start.start_pos : statement.end].split())
        guard, negated = None, False
        if statement.guard is not None:
            name = statement.guard[1:].strip()
            negated = name.startswith("!")
            found = scope.find(name.lstrip("! "))
            if not isinstance(found, Register) or found.type != "pred":
                raise InputError(f"{name.lstrip('! ')} is not a predicate register", at)
            guard = found
        opcode = re.sub(r"\s+", "", statement.opcode)
        operands = tuple(self._operand(operand, scope, at) for operand in statement.operands)
        line, column = start.line or 0, start.column or 0
        return PtxInstruction(opcode, operands, line, column, text, guard, negated)

    def _operand(self, raw: object, scope: _Scope, at: str) -> Operand:
        if isinstance(raw, _Name):
            return self._name(raw, scope, at)
        if isinstance(raw, Address):
            offset = 0
            base: object = raw.base
            if isinstance(base, _Name):
                base, offset = _Name(base.text), base.offset
            rest = tuple(self._operand(item, scope, at) for item in raw.rest)
            return Address(self._operand(base, scope, at), offset, rest)
        if isinstance(raw, Vector):
            return Vector(tuple(self._operand(item, scope, at) for item in raw.items))
        if isinstance(raw, Pair):
            first, second = (self._operand(item, scope, at) for item in (raw.first, raw.second))
            return Pair(first, second)
        if isinstance(raw, Negated):
            return Negated(self._operand(raw.operand, scope, at))
        assert isinstance(raw, Immediate | Discard)
        return raw

    def _name(self, raw: _Name, scope: _Scope, at: str) -> Operand:
        found = scope.find(raw.text)
        if found is None:
            raise InputError(f"{raw.text} is not declared", at)
        if raw.offset:
            if not isinstance(found, Symbol):
                raise InputError(f"an offset needs a variable: {raw.text}", at)
            return Symbol(found.name, raw.offset)
        return found
