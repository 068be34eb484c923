"""Expressions of the kernel language, compiled to closures over an agent's variables.

Types are static: an operator on the wrong type is refused when the kernel is read. What depends
on values (a zero divisor, a number too large) is refused when the expression is evaluated.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import syntax
from .suggest import suggestion
from .syntax import Position

Value = int | bool | str | tuple[int, ...]
Environment = list[Any]
"""The values of an agent's variables, by slot."""
Run = Callable[[Environment], Any]

LARGEST = 10**15
LARGEST_SHIFT = 64
TYPE_NAMES = {int: "an integer", bool: "true or false", str: "a word", tuple: "a list"}


@dataclass(frozen=True)
class Code:
    """A compiled expression: its type, and how to evaluate it."""

    type: type
    run: Run
    constant: bool = False


def constant(value: Value) -> Code:
    return Code(type(value), lambda environment: value, True)


@dataclass
class Scope:
    """The names that an expression may use; an inner scope sees the outer one's.

    `slots` holds the variables that may be assigned. `aliases` holds a procedure's parameters that
    stand for an array, an mbarrier, a ring or a register of its caller. `counter` gives out slots.
    """

    outer: Scope | None = None
    codes: dict[str, Code] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    counter: list[int] = field(default_factory=lambda: [0])

    def inner(self) -> Scope:
        return Scope(self, counter=self.counter)

    def find(self, name: str) -> Code | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.codes:
                return scope.codes[name]
            scope = scope.outer
        return None

    def owner(self, name: str) -> Scope | None:
        """The scope that declares the variable `name`."""
        scope: Scope | None = self
        while scope is not None and name not in scope.codes:
            scope = scope.outer
        return scope

    def real_name(self, name: str) -> str:
        """What a procedure's parameter stands for in its caller; other names are themselves."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.aliases:
                return scope.aliases[name]
            scope = scope.outer
        return name

    def names(self) -> list[str]:
        return [*self.codes, *(self.outer.names() if self.outer else ())]

    def declare(self, name: str, kind: type, position: Position, assignable: bool = False) -> int:
        """A new variable of this scope; returns its slot."""
        if name in self.codes:
            raise position.error(f"`{name}` is declared twice in this block")
        slot = self.counter[0]
        self.counter[0] += 1
        self.codes[name] = Code(kind, operator.itemgetter(slot))
        if assignable:
            self.slots[name] = slot
        return slot


def compile_expression(node: syntax.Expression, scope: Scope) -> Code:
    """`node` as a closure; constant parts are evaluated once."""
    return COMPILERS[type(node)](node, scope)


def integer(node: syntax.Expression, scope: Scope) -> Code:
    """An expression that must be an integer."""
    return typed(node, scope, (int, bool))


def typed(node: syntax.Expression, scope: Scope, types: tuple[type, ...]) -> Code:
    code = compile_expression(node, scope)
    if code.type not in types:
        raise node.position.error(
            f"{TYPE_NAMES[types[0]]} is needed here, and this is {TYPE_NAMES[code.type]}"
        )
    return code


def fold(code: Code, *parts: Code) -> Code:
    """`code`, evaluated once when all its parts are constant."""
    if not all(part.constant for part in parts):
        return code
    return constant(code.run([]))


def bounded(value: int, position: Position) -> int:
    """Refuse numbers that no kernel has, before they cost time or memory."""
    if -LARGEST <= value <= LARGEST:
        return value
    raise position.error(f"a number beyond {LARGEST:.0e}; no kernel needs one that large")


# --- one compiler a node --------------------------------------------------------------------------


def compile_constant(node: syntax.Constant, scope: Scope) -> Code:
    return constant(node.value)


def compile_name(node: syntax.Name, scope: Scope) -> Code:
    code = scope.find(node.name)
    if code is None:
        hint = suggestion(node.name, scope.names())
        raise node.position.error(f"no variable or parameter is named `{node.name}`{hint}")
    return code


def compile_list(node: syntax.ListOf, scope: Scope) -> Code:
    items = [integer(item, scope) for item in node.items]
    runs = [item.run for item in items]
    return fold(Code(tuple, lambda env: tuple(run(env) for run in runs)), *items)


def compile_unary(node: syntax.Unary, scope: Scope) -> Code:
    operand = typed(node.operand, scope, (int, bool))
    run = operand.run
    if node.operator == "not":
        return fold(Code(bool, lambda env: not run(env)), operand)
    return fold(Code(int, lambda env: -run(env)), operand)


def compile_binary(node: syntax.Binary, scope: Scope) -> Code:
    left, right = compile_expression(node.left, scope), compile_expression(node.right, scope)
    check_operands(node, left, right)
    kind = bool if node.operator in COMPARISONS or node.operator in ("and", "or") else int
    run = binary_run(node, left.run, right.run)
    lazy = node.operator in ("and", "or")
    return Code(kind, run) if lazy else fold(Code(kind, run), left, right)


def check_operands(node: syntax.Binary, left: Code, right: Code) -> None:
    numbers = (int, bool)
    if left.type in numbers and right.type in numbers:
        return
    if node.operator in ("==", "!=") and left.type == right.type:
        return
    wrong, operand = (left, node.left) if left.type not in numbers else (right, node.right)
    raise operand.position.error(
        f"`{node.operator}` works on integers, and this is {TYPE_NAMES[wrong.type]}"
    )


def binary_run(node: syntax.Binary, left: Run, right: Run) -> Run:
    if node.operator in COMPARISONS:
        compare = COMPARISONS[node.operator]
        return lambda env: compare(left(env), right(env))
    match node.operator:
        case "and":
            return lambda env: bool(left(env) and right(env))
        case "or":
            return lambda env: bool(left(env) or right(env))
        case "+":
            return lambda env: left(env) + right(env)
        case "-":
            return lambda env: left(env) - right(env)
        case "*":
            return lambda env: bounded(left(env) * right(env), node.position)
        case "&" | "|" | "^":
            bitwise = BITWISE[node.operator]
            return lambda env: bitwise(left(env), right(env))
        case "<<" | ">>":
            return shift(node, left, right)
    return divide(node, left, right)


def divide(node: syntax.Binary, left: Run, right: Run) -> Run:
    compute = operator.mod if node.operator == "%" else operator.floordiv

    def run(env: Environment) -> int:
        divisor = right(env)
        if not divisor:
            raise node.position.error(f"`{node.operator}` by zero")
        quotient: int = compute(left(env), divisor)
        return quotient

    return run


def shift(node: syntax.Binary, left: Run, right: Run) -> Run:
    compute = operator.lshift if node.operator == "<<" else operator.rshift

    def run(env: Environment) -> int:
        count = right(env)
        if not 0 <= count <= LARGEST_SHIFT:
            raise node.position.error(f"a shift by {count}; 0 to {LARGEST_SHIFT} is possible")
        return bounded(compute(left(env), count), node.position)

    return run


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
BITWISE: dict[str, Callable[[int, int], int]] = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


def compile_conditional(node: syntax.Conditional, scope: Scope) -> Code:
    condition = typed(node.condition, scope, (bool, int))
    then = compile_expression(node.then, scope)
    otherwise = compile_expression(node.otherwise, scope)
    if (then.type is tuple) != (otherwise.type is tuple) or (then.type is str) != (
        otherwise.type is str
    ):
        raise node.position.error("both sides of `if ... else` need one type")
    if condition.constant:
        return then if condition.run([]) else otherwise
    test, yes, no = condition.run, then.run, otherwise.run
    return Code(then.type, lambda env: yes(env) if test(env) else no(env))


def compile_apply(node: syntax.Apply, scope: Scope) -> Code:
    if node.function not in FUNCTIONS:
        hint = suggestion(node.function, FUNCTIONS)
        raise node.position.error(
            f"no function is named `{node.function}`{hint or '; there are ' + ', '.join(FUNCTIONS)}"
        )
    function, of_list = FUNCTIONS[node.function]
    arguments = [compile_expression(argument, scope) for argument in node.arguments]
    one_list = [argument.type for argument in arguments] == [tuple]
    integers = bool(arguments) and all(argument.type in (int, bool) for argument in arguments)
    if not one_list and (of_list or not integers):
        wanted = "a list" if of_list else "a list or integers"
        raise node.position.error(f"`{node.function}` takes {wanted}")
    runs = [argument.run for argument in arguments]

    def run(env: Environment) -> int:
        values: Sequence[int] = runs[0](env) if one_list else [each(env) for each in runs]
        if not values and function in (min, max):
            raise node.position.error(f"`{node.function}` of an empty list")
        return bounded(function(values), node.position)

    return fold(Code(int, run), *arguments)


FUNCTIONS: dict[str, tuple[Callable[[Sequence[int]], int], bool]] = {
    "min": (min, False),
    "max": (max, False),
    "len": (len, True),
    "sum": (sum, True),
}
"""What expressions may call, and whether it takes a list only."""


def compile_subscript(node: syntax.Subscript, scope: Scope) -> Code:
    base = typed(node.base, scope, (tuple,))
    index = integer(node.index, scope)

    def run(env: Environment) -> int:
        items: tuple[int, ...] = base.run(env)
        place = index.run(env)
        if not 0 <= place < len(items):
            raise node.position.error(
                f"index {place} is outside this list, whose elements are 0 to {len(items) - 1}"
            )
        return items[place]

    return fold(Code(int, run), base, index)


def refuse(node: syntax.Expression, scope: Scope) -> Code:
    raise node.position.error("a number is needed here, not a place in memory")


COMPILERS: dict[type, Callable[[Any, Scope], Code]] = {
    syntax.Constant: compile_constant,
    syntax.Name: compile_name,
    syntax.ListOf: compile_list,
    syntax.Unary: compile_unary,
    syntax.Binary: compile_binary,
    syntax.Conditional: compile_conditional,
    syntax.Apply: compile_apply,
    syntax.Subscript: compile_subscript,
    syntax.Piece: refuse,
    syntax.AtCta: refuse,
}
