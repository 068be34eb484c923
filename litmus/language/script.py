"""From the grammar's rules to syntax nodes: one method a rule of `litmus.lark`.

The parser calls these while it parses, so no tree is made in between and nothing recurses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lark import Token, Transformer, v_args

from ...model.axiomatic.code import Place
from .syntax import (
    Alias,
    AtEnd,
    Code,
    Column,
    Combination,
    Comparison,
    ConditionNode,
    Declaration,
    Label,
    Line,
    Mistake,
    Operand,
    QuantityNode,
    RegisterInitial,
    Setting,
    combine,
    element_name,
    number_of,
)


class Row(NamedTuple):
    """A row of cells, one a thread, and where it ends."""

    cells: tuple[Code, ...]
    end: Place


class Parts(NamedTuple):
    """What the grammar's start rule has. `question` is where the quantified condition starts."""

    header: str
    settings: tuple[Setting, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    filter: ConditionNode | None
    shown: tuple[QuantityNode, ...]
    quantifier: str
    condition: ConditionNode
    question: int


def at(token: Token) -> Place:
    return Place(token.line or 1, token.column or 1)


def first_place(node: ConditionNode | QuantityNode) -> Place:
    """Where a condition starts; an empty one (`true`) has no place of its own."""
    if isinstance(node, Comparison):
        return node.left.place
    if isinstance(node, Combination):
        return first_place(node.parts[0]) if node.parts else Place(1, 1)
    return node.place


@v_args(inline=True)
class Common(Transformer[Token, Any]):
    """The rules that NVlabs' grammar has too: operands, instructions, conditions."""

    def location_value(self, location: Operand) -> Operand:
        return location

    def address_value(self, location: Operand) -> Operand:
        return location._replace(address=True)

    def number(self, token: Token) -> Operand:
        place = at(token)
        return Operand(place, number=number_of(token, place))

    def label(self, token: Token) -> Label:
        return Label(at(token), token[:-1].rstrip())

    def instruction(self, opcode: Token, *operands: Operand | None) -> Line:
        given = tuple(operand for operand in operands if operand is not None)
        return Line(at(opcode), str(opcode), given)

    def plain(self, location: Operand) -> Operand:
        return location

    def address(self, location: Operand) -> Operand:
        return location._replace(address=True)

    def bracketed(self, location: Operand) -> Operand:
        return location._replace(bracketed=True)

    def either(self, *parts: ConditionNode) -> Combination:
        return combine("or", parts, first_place(parts[0]))

    def both(self, *parts: ConditionNode) -> Combination:
        return combine("and", parts, first_place(parts[0]))

    def negated(self, keyword: Token, part: ConditionNode) -> Combination:
        return combine("not", (part,), at(keyword))

    def true(self) -> Combination:
        return Combination("and")

    def false(self) -> Combination:
        return Combination("or")

    def comparison(self, left: QuantityNode, comparison: Token, right: QuantityNode) -> Comparison:
        return Comparison(left, str(comparison), right)

    def register_at(self, thread: Token, register: Token) -> AtEnd:
        return AtEnd(at(thread), str(thread), str(register))

    def final(self, location: Operand) -> Operand:
        return location


@v_args(inline=True)
class ToScript(Common):
    """One method a grammar rule, each making the node of that name."""

    def start(
        self,
        header: Token,
        settings: tuple[Setting, ...],
        columns: tuple[Column, ...],
        rows: tuple[Row, ...],
        clauses: dict[str, Any],
        question: tuple[str, ConditionNode, int],
    ) -> Parts:
        shown, condition = clauses.get("locations", ()), clauses.get("filter")
        return Parts(str(header), settings, columns, rows, condition, shown, *question)

    # the init block

    def block(self, *settings: Setting) -> tuple[Setting, ...]:
        return settings

    def declared(self, location: Operand) -> Declaration:
        return Declaration(location.place, location.name)

    def initial(self, location: Operand, value: Operand) -> Declaration:
        return Declaration(location.place, location.name, value=value)

    def register_initial(self, thread: Token, register: Token, value: Operand) -> RegisterInitial:
        return RegisterInitial(at(thread), str(thread), str(register), value)

    def alias(self, location: Operand, view: Token, target: Operand) -> Alias:
        return Alias(location.place, location.name, str(view), target.name)

    def in_space(
        self,
        space: Token,
        location: Operand,
        level: Token | None,
        number: Token | None,
        value: Operand | None,
        count: Token | None,
    ) -> Declaration:
        where = None
        if level is not None and number is not None:
            where = (str(level), number_of(number, at(number)))
        arrivals = None if count is None else number_of(count, at(count))
        return Declaration(at(space), location.name, str(space), where, value, arrivals)

    def location(self, name: Token, index: Token | None) -> Operand:
        place = at(name)
        if index is None:
            return Operand(place, str(name))
        return Operand(place, element_name(name, number_of(index, at(index)), place))

    # the threads

    def threads(self, *columns: Column) -> tuple[Column, ...]:
        return columns

    def thread(self, name: Token, *levels: tuple[Place, str, int] | None) -> Column:
        return Column(at(name), str(name), tuple(level for level in levels if level is not None))

    def level(self, name: Token, number: Token) -> tuple[Place, str, int]:
        return at(name), str(name), number_of(number, at(number))

    def rows(self, *rows: Row) -> tuple[Row, ...]:
        return rows

    def row(self, *parts: Any) -> Row:
        return Row(parts[:-1], at(parts[-1]))

    def cell(self, *items: Label | Line | None) -> Code:
        return tuple(item for item in items if item is not None)

    # the question

    def clauses(self, *clauses: tuple[Token, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for keyword, content in clauses:
            if keyword in found:
                raise Mistake(at(keyword), f"a second `{keyword}`; a test has at most one")
            found[str(keyword)] = content
        return found

    def locations(self, keyword: Token, *quantities: QuantityNode) -> tuple[Token, Any]:
        return keyword, quantities

    def filter(self, keyword: Token, condition: ConditionNode) -> tuple[Token, Any]:
        return keyword, condition

    def exists(self, keyword: Token, condition: ConditionNode) -> Any:
        return "exists", condition, keyword.start_pos

    def not_exists(self, negation: Token, keyword: Token, condition: ConditionNode) -> Any:
        return "~exists", condition, negation.start_pos

    def forall(self, keyword: Token, condition: ConditionNode) -> Any:
        return "forall", condition, keyword.start_pos
