"""Text of a kernel -> syntax tree. Mistakes become `InputError`s with line, column and a remedy."""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken, VisitError
from lark.indenter import Indenter
from lark.tree import Meta

from ..model.program import InputError, Space
from . import syntax
from .syntax import Position

GRAMMAR = Path(__file__).with_name("kernel.lark")
MAX_CHARACTERS = 1_000_000
MAX_DIGITS = 15

READABLE = {
    "_NL": "the end of the line",
    "_INDENT": "an indented block",
    "_DEDENT": "the end of the block",
    "$END": "the end of the file",
    "NAME": "a name",
    "INT": "a number",
    "STRING": 'a "text"',
    "OPCODE": "an instruction",
    "OPERATOR": "an operator",
}
ENDS = ("_NL", "_DEDENT", "$END")
LEVELS = (
    ("or",), ("and",), ("not",), ("==", "!=", "<=", ">=", "<", ">"), ("|",), ("^",), ("&",),
    ("<<", ">>"), ("+", "-"), ("*", "/", "//", "%"),
)  # fmt: skip
"""Operators from the loosest to the tightest; equal levels bind to the left."""
BINDING = {operator: level for level, operators in enumerate(LEVELS) for operator in operators}
PREFIX_BINDING = {"not": BINDING["not"], "-": len(LEVELS)}

STARTS = frozenset(("INT", "NAME", "LPAR", "LSQB", "NOT", "MINUS", "TRUE", "FALSE"))
"""What an expression may start with."""


class DedentMistake(Exception):
    """A line is indented like no open block."""

    def __init__(self, line: int, column: int) -> None:
        self.line, self.column = line, column


class Blocks(Indenter):
    """Turns indentation into tokens; inside brackets a line may be broken."""

    NL_type = "_NL"
    OPEN_PAREN_types = ["LPAR", "LSQB"]
    CLOSE_PAREN_types = ["RPAR", "RSQB"]
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8

    def handle_NL(self, token: Token) -> Any:
        indent = len(token.rsplit("\n", 1)[1].split("#", 1)[0])
        dedents = not self.paren_level and indent < self.indent_level[-1]
        if dedents and indent not in self.indent_level:
            raise DedentMistake(token.end_line or 0, indent + 1)
        return super().handle_NL(token)


def private_directory() -> Path | None:
    """A folder of this user's alone under the temporary directory, for the parser's tables."""
    if not hasattr(os, "getuid"):
        return None
    folder = Path(tempfile.gettempdir()) / f"lastread-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    safe = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return folder if safe and not status.st_mode & 0o077 else None


@cache
def lark() -> Lark:
    """The parser; its tables are cached, as building them takes longer than most kernels."""
    folder = private_directory()
    return Lark(
        GRAMMAR.read_text(encoding="utf-8"),
        parser="lalr",
        postlex=Blocks(),
        propagate_positions=True,
        maybe_placeholders=True,
        cache=str(folder / "kernel.lark.tables") if folder else False,
    )


def parse(text: str, path: str = "<kernel>") -> syntax.Kernel:
    """The kernel that `text` declares; `path` names it in errors."""
    check_text(text, path)
    try:
        tree = lark().parse(text.rstrip() + "\n")
        kernel: syntax.Kernel = ToSyntax(path, text).transform(tree)
    except UnexpectedInput as error:
        raise syntax_error(error, text, path) from None
    except DedentMistake as error:
        raise Position(path, error.line, error.column).error(
            "this line is indented like no open block; indent it like the line it belongs with"
        ) from None
    except VisitError as error:
        if not isinstance(error.orig_exc, RecursionError):
            raise error.orig_exc from None
        raise too_deep(path) from None
    except RecursionError:
        raise too_deep(path) from None
    return kernel


def too_deep(path: str) -> InputError:
    return InputError("nested too deeply; split the expression or the block", path)


def check_text(text: str, path: str) -> None:
    """Refuse what is no kernel before looking closer."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"more than {MAX_CHARACTERS:,} characters; this is no kernel", path)
    if not any(line.split("#", 1)[0].strip() for line in text.split("\n")):
        raise InputError("the file is empty; a kernel starts with `kernel NAME(...)`", path)
    for number, line in enumerate(text.split("\n"), 1):
        if "\0" in line:
            raise Position(path, number, line.index("\0") + 1).error("binary data, not a kernel")
        if "\t" in line:
            raise Position(path, number, line.index("\t") + 1).error("a tab; indent with spaces")


def syntax_error(error: UnexpectedInput, text: str, path: str) -> InputError:
    """What was found, and what would have been legal there, in words."""
    if isinstance(error, UnexpectedToken):
        token = error.token
        position = Position(path, *place(token, text))
        legal = wanted(set(error.accepts or error.expected))
        hint = " (`<-` is an arrow; write `< -`)" if token == "<-" else ""
        return position.error(f"unexpected {found(token)}{hint}; expected {legal}")
    assert isinstance(error, UnexpectedCharacters)
    position = Position(path, error.line, error.column)
    character = text.split("\n")[error.line - 1][error.column - 1 : error.column]
    legal = wanted(set(error.allowed or ()))
    return position.error(f"unexpected character '{character}'; expected {legal}")


def found(token: Token) -> str:
    if token.type == "_INDENT":
        return "indentation"
    return READABLE[token.type].removeprefix("the ") if token.type in ENDS else f"'{token}'"


def place(token: Token, text: str) -> tuple[int, int]:
    """Line and column of a token; the end of a line is where its text ends."""
    if token.type not in (*ENDS, "_INDENT"):
        return token.line or 1, token.column or 1
    lines = text.rstrip().split("\n")
    if token.type == "_INDENT":
        line = min(token.end_line or 1, len(lines))
        return line, len(lines[line - 1]) - len(lines[line - 1].lstrip()) + 1
    line = min(token.line or len(lines), len(lines))
    return line, len(lines[line - 1].split("#", 1)[0].rstrip()) + 1


def wanted(terminals: set[str]) -> str:
    """Terminal names as a short readable list."""
    words = []
    if terminals >= {"INT", "NAME", "LPAR"}:
        words.append("an expression")
        terminals = terminals - STARTS
    words += sorted(readable(name) for name in terminals)
    if len(words) > 8:
        words = words[:8] + ["..."]
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def readable(terminal: str) -> str:
    if terminal in READABLE:
        return READABLE[terminal]
    try:
        return f"'{lark().get_terminal(terminal).pattern.value}'"
    except KeyError:
        return terminal.lower()


@v_args(inline=True, meta=True)
class ToSyntax(Transformer[Token, Any]):
    """One method a grammar rule, each making the node of that name."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__()
        self.path = path
        self.lines = tuple(line.rstrip("\r") for line in text.removesuffix("\n").split("\n"))

    def position(self, meta: Meta) -> Position:
        return Position(self.path, meta.line, meta.column)

    # declarations

    def start(self, meta: Meta, header: Any, *declarations: Any) -> syntax.Kernel:
        flat: list[syntax.Declaration] = []
        for declaration in declarations:
            flat += declaration if isinstance(declaration, list) else [declaration]
        name, parameters, position = header
        return syntax.Kernel(position, name, parameters, tuple(flat), self.lines)

    def kernel(self, meta: Meta, name: Token, *parameters: Any) -> Any:
        return str(name), given(parameters), self.position(meta)

    def parameter(self, meta: Meta, name: Token, default: Any) -> syntax.Parameter:
        words: tuple[str, ...] = ()
        if isinstance(default, syntax.Constant):
            default = default.value
        elif isinstance(default, tuple) and default and isinstance(default[0], str):
            default, words = default[0], default
        return syntax.Parameter(self.position(meta), str(name), default, words)

    def integer_default(self, meta: Meta, number: Token) -> int:
        return self.number(meta, number)

    def negative_default(self, meta: Meta, number: Token) -> int:
        return -self.number(meta, number)

    def list_default(self, meta: Meta, *numbers: Token) -> tuple[int, ...]:
        return tuple(self.number(meta, number) for number in given(numbers))

    def words_default(self, meta: Meta, *words: Token) -> tuple[str, ...]:
        return tuple(str(word) for word in words)

    def cluster(self, meta: Meta, size: Any) -> syntax.Cluster:
        return syntax.Cluster(self.position(meta), size)

    def require(self, meta: Meta, condition: Any, message: Token) -> syntax.Require:
        return syntax.Require(self.position(meta), condition, message[1:-1])

    def arrays(self, meta: Meta, space: Token, *arrays: Any) -> list[syntax.Array]:
        return [self.array_of(Space(space), *parts) for parts in arrays]

    def array_of(self, space: Space, name: Token, count: Any, found: dict[str, Any]) -> Any:
        position = Position(self.path, name.line or 0, name.column or 0)
        unit, size = found.get("size", (None, None))
        if unit == ("bytes" if space is Space.TMEM else "columns"):
            raise position.error(f"an array in {space.value} is not measured in {unit}")
        each, at = found.get("at", (None, None))
        return syntax.Array(position, space, str(name), count, size, found.get("lanes"), at, each)

    def array(self, meta: Meta, name: Token, count: Any, *properties: Any) -> Any:
        found: dict[str, Any] = {}
        for key, value in properties:
            if key in found:
                raise self.position(meta).error(f"`{key}` is given twice for {name}")
            found[key] = value
        return name, count, found

    def size(self, meta: Meta, unit: Token, value: Any) -> Any:
        return "size", (str(unit), value)

    def lanes(self, meta: Meta, start: Any, stop: Any) -> Any:
        return "lanes", (start, stop)

    def at(self, meta: Meta, value: Any) -> Any:
        return "at", (None, value)

    def at_each(self, meta: Meta, name: Token, value: Any) -> Any:
        return "at", (str(name), value)

    def mbarriers(self, meta: Meta, *barriers: Any) -> list[syntax.Mbarrier]:
        return list(barriers)

    def barrier(self, meta: Meta, name: Token, count: Any, setup: Any) -> syntax.Mbarrier:
        return syntax.Mbarrier(self.position(meta), str(name), count, *setup)

    def count(self, meta: Meta, arrivals: Any) -> Any:
        return arrivals, None

    def uninitialized(self, meta: Meta, at: Any) -> Any:
        return None, at

    def ring(self, meta: Meta, name: Token, full: Token, empty: Token, depth: Any) -> syntax.Ring:
        return syntax.Ring(self.position(meta), str(name), str(full), str(empty), depth)

    def procedure(self, meta: Meta, name: Token, *rest: Any) -> syntax.Procedure:
        *names, body = rest
        parameters = tuple(str(parameter) for parameter in given(tuple(names)))
        return syntax.Procedure(self.position(meta), str(name), parameters, body)

    def agent(self, meta: Meta, name: Token, *rest: Any) -> syntax.Agent:
        *traits, body = rest
        position = self.position(meta)
        whos = [trait for trait in traits if isinstance(trait, syntax.Who)]
        axes = tuple(trait for trait in traits if isinstance(trait, syntax.Axis))
        ctas = [trait[0] for trait in traits if isinstance(trait, tuple)]
        if len(whos) != 1 or len(ctas) > 1 or (axes and not whos[0].axes):
            raise position.error(
                f"say once what `{name}` is, for example `agent {name}: 4 warps, cta 0`"
            )
        who = replace(whos[0], axes=whos[0].axes + axes)
        return syntax.Agent(position, str(name), who, ctas[0] if ctas else None, body)

    def warps(self, meta: Meta, count: Any, first: Any) -> syntax.Who:
        return syntax.Who(self.position(meta), "warps", count, first)

    def warp_range(self, meta: Meta, first: Any, stop: Any) -> syntax.Who:
        return syntax.Who(self.position(meta), "warps", None, first, stop)

    def threads(self, meta: Meta, count: Any, first: Any) -> syntax.Who:
        return syntax.Who(self.position(meta), "threads", count, first)

    def first_axis(self, meta: Meta, axis: syntax.Axis) -> syntax.Who:
        return syntax.Who(self.position(meta), "threads", axes=(axis,))

    def axis(self, meta: Meta, name: Token, start: Any, stop: Any) -> syntax.Axis:
        return syntax.Axis(self.position(meta), str(name), start, stop)

    def ctas(self, meta: Meta, *cta: Any) -> Any:
        return cta or (None,)

    # statements

    def block(self, meta: Meta, *statements: Any) -> syntax.Block:
        return statements

    def let(self, meta: Meta, name: Token, value: Any) -> syntax.Let:
        return syntax.Let(self.position(meta), str(name), value)

    def assign(self, meta: Meta, name: Token, value: Any) -> syntax.Assign:
        return syntax.Assign(self.position(meta), str(name), value)

    def call(self, meta: Meta, name: Token, *arguments: Any) -> syntax.Call:
        return syntax.Call(self.position(meta), str(name), given(arguments))

    def for_(self, meta: Meta, *parts: Any) -> syntax.For:
        first, second, start, stop, body = parts
        variable, index = (str(first), None) if second is None else (str(second), str(first))
        return syntax.For(self.position(meta), variable, index, start, stop, body)

    def if_(self, meta: Meta, condition: Any, then: Any, *rest: Any) -> syntax.If:
        *alternatives, otherwise = rest
        otherwise = otherwise or ()
        for position, test, body in reversed(alternatives):
            otherwise = (syntax.If(position, test, body, otherwise),)
        return syntax.If(self.position(meta), condition, then, otherwise)

    def elif_(self, meta: Meta, condition: Any, body: Any) -> Any:
        return self.position(meta), condition, body

    def else_(self, meta: Meta, body: Any) -> Any:
        return body

    def branch(
        self, meta: Meta, site: Token, register: Token, then: Any, otherwise: Any
    ) -> syntax.Branch:
        position = self.position(meta)
        return syntax.Branch(position, str(site), str(register), then, otherwise or ())

    def tile(self, meta: Meta, value: Any) -> syntax.Tile:
        return syntax.Tile(self.position(meta), value)

    def instruction(
        self, meta: Meta, opcode: str, left: Any, arrow: Any, right: Any, *clauses: Any
    ) -> syntax.Instruction:
        return syntax.Instruction(self.position(meta), opcode, left or (), right, clauses)

    def opcode(self, meta: Meta, name: Token) -> str:
        return str(name)

    def operands(self, meta: Meta, *operands: Any) -> Any:
        return operands

    def clause(self, meta: Meta, word: Token, operands: Any) -> Any:
        return str(word), operands

    # expressions

    def conditional(self, meta: Meta, then: Any, condition: Any, other: Any) -> Any:
        if condition is None:
            return then
        return syntax.Conditional(self.position(meta), condition, then, other)

    def row(self, meta: Meta, *items: Any) -> Any:
        return self.bind(list(reversed(items)), 0)

    def bind(self, rest: list[Any], loosest: int) -> Any:
        """Precedence climbing over the reversed row `rest`; operators below `loosest` stay."""
        item = rest.pop()
        if isinstance(item, Token):
            operand = self.bind(rest, PREFIX_BINDING[item])
            left: Any = syntax.Unary(self.token_position(item), str(item), operand)
        else:
            left = item
        while rest and BINDING[rest[-1]] >= loosest:
            operator = rest.pop()
            right = self.bind(rest, BINDING[operator] + 1)
            left = syntax.Binary(left.position, str(operator), left, right)
        return left

    def token_position(self, token: Token) -> Position:
        return Position(self.path, token.line or 0, token.column or 0)

    def subscript(self, meta: Meta, base: Any, index: Any) -> syntax.Subscript:
        return syntax.Subscript(self.position(meta), base, index)

    def piece(self, meta: Meta, base: Any, kind: Token, first: Any, second: Any) -> syntax.Piece:
        return syntax.Piece(self.position(meta), base, str(kind), first, second)

    def at_cta(self, meta: Meta, base: Any, cta: Any) -> syntax.AtCta:
        return syntax.AtCta(self.position(meta), base, cta)

    def integer(self, meta: Meta, number: Token) -> syntax.Constant:
        return syntax.Constant(self.position(meta), self.number(meta, number))

    def true(self, meta: Meta) -> syntax.Constant:
        return syntax.Constant(self.position(meta), True)

    def false(self, meta: Meta) -> syntax.Constant:
        return syntax.Constant(self.position(meta), False)

    def name(self, meta: Meta, name: Token) -> syntax.Name:
        return syntax.Name(self.position(meta), str(name))

    def apply(self, meta: Meta, function: Token, *arguments: Any) -> syntax.Apply:
        return syntax.Apply(self.position(meta), str(function), given(arguments))

    def list(self, meta: Meta, *items: Any) -> syntax.ListOf:
        return syntax.ListOf(self.position(meta), given(items))

    def number(self, meta: Meta, number: Token) -> int:
        if len(number) > MAX_DIGITS:
            raise self.position(meta).error(f"a number of more than {MAX_DIGITS} digits")
        return int(number)


# Rules named like Python's keywords.
for _rule in ("for", "if", "elif", "else"):
    setattr(ToSyntax, _rule, getattr(ToSyntax, f"{_rule}_"))


def given(children: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the placeholder that an absent optional part leaves."""
    return tuple(child for child in children if child is not None)
