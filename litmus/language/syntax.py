"""The text of a litmus test as data, before names and opcodes are looked up.

All front ends of litmus tests (`parser.py`, `nvlabs.py`) make these nodes, and `assembly.py` makes
a `Test` of them. A fault raises `Mistake`; the front end, which knows the file, makes it an
`InputError`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...model.axiomatic.code import Place
from ...model.program import InputError

WORD_BITS = 32
MAX_CHARACTERS = 200_000
MAX_THREADS = 64


class Mistake(Exception):
    """A fault of the user's text, before the file's name is known."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.place, self.message = place, message

    def within(self, path: str) -> InputError:
        """The fault as the user sees it."""
        return InputError(
            self.message, f"{path or '<litmus>'}:{self.place.line}:{self.place.column}"
        )


# --- operands and instructions --------------------------------------------------------------------


class Operand(NamedTuple):
    """An operand as written: a number, or a name with `&` or in brackets or plain."""

    place: Place
    name: str = ""
    number: int | None = None
    address: bool = False
    bracketed: bool = False

    @property
    def text(self) -> str:
        if self.number is not None:
            return str(self.number)
        if self.bracketed:
            return f"[{self.name}]"
        return f"&{self.name}" if self.address else self.name


class Line(NamedTuple):
    """One instruction of one thread."""

    place: Place
    opcode: str
    operands: tuple[Operand, ...] = ()

    @property
    def text(self) -> str:
        operands = ", ".join(operand.text for operand in self.operands)
        return f"{self.opcode} {operands}".rstrip()


class Label(NamedTuple):
    """`LC00:`, a target of branches of its thread."""

    place: Place
    name: str


# --- the init block -------------------------------------------------------------------------------


class Declaration(NamedTuple):
    """`[space] name [@ cta N] [= value] [count N]`."""

    place: Place
    name: str
    space: str = ""
    level: tuple[str, int] | None = None
    value: Operand | None = None
    arrivals: int | None = None


class RegisterInitial(NamedTuple):
    """`P0:r1 = value`."""

    place: Place
    thread: str
    register: str
    value: Operand


class Alias(NamedTuple):
    """`name @ view aliases target`."""

    place: Place
    name: str
    view: str
    target: str


Setting = Declaration | RegisterInitial | Alias


# --- threads --------------------------------------------------------------------------------------


class Column(NamedTuple):
    """A cell of the thread row: the thread's name and where it runs, as written."""

    place: Place
    name: str
    levels: tuple[tuple[Place, str, int], ...] = ()


Code = tuple[Label | Line, ...]


# --- conditions -----------------------------------------------------------------------------------


class AtEnd(NamedTuple):
    """`P0:r1` or `0:r1`; without a thread (NVlabs) the one thread that sets the register."""

    place: Place
    thread: str
    register: str


QuantityNode = Operand | AtEnd


class Comparison(NamedTuple):
    left: QuantityNode
    comparison: str
    right: QuantityNode


class Combination(NamedTuple):
    """`and` and `or` of any number, `not` of one. `depth` bounds the recursion over it."""

    kind: str
    parts: tuple[Comparison | Combination, ...] = ()
    depth: int = 1


ConditionNode = Comparison | Combination


@dataclass(frozen=True)
class Script:
    """A whole test as written."""

    name: str
    columns: tuple[Column, ...]
    code: tuple[Code, ...]
    quantifier: str
    condition: ConditionNode
    settings: tuple[Setting, ...] = ()
    filter: ConditionNode | None = None
    shown: tuple[QuantityNode, ...] = ()
    description: tuple[str, ...] = ()
    condition_text: str = ""
    expectations: tuple[tuple[str, str], ...] = field(default=())


# --- helpers of every front end -------------------------------------------------------------------

MAX_DEPTH = 40


def number_of(text: str, place: Place) -> int:
    """A constant: what a 32-bit word can hold, signed or unsigned."""
    digits = text.lstrip("-")
    if len(digits) <= 12:
        value = int(text, 0 if digits[:2] in ("0x", "0X") else 10)
        if -(2 ** (WORD_BITS - 1)) <= value < 2**WORD_BITS:
            return value
    raise Mistake(place, "a number that no 32-bit word holds (every location is one word)")


def element_name(base: str, index: int, place: Place) -> str:
    """`x[3]`; `x[0]` is `x` itself."""
    if index < 0:
        raise Mistake(place, f"`{base}[{index}]`: an index counts from 0")
    return f"{base}[{index}]" if index else base


def combine(kind: str, parts: tuple[ConditionNode, ...], place: Place) -> Combination:
    """A combination that is not nested beyond what a person would write."""
    depth = 1 + max((part.depth for part in parts if isinstance(part, Combination)), default=0)
    if depth > MAX_DEPTH:
        raise Mistake(
            place, f"a condition nested more than {MAX_DEPTH} deep; use fewer parentheses"
        )
    return Combination(kind, parts, depth)


def check_size(text: str) -> None:
    """Refuse what is no litmus test before looking closer."""
    if len(text) > MAX_CHARACTERS:
        raise Mistake(Place(1, 1), f"more than {MAX_CHARACTERS:,} characters: no litmus test")
