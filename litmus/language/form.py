"""One instruction of the text with its row of the table: operands looked up and checked."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from ...model.axiomatic.code import (
    Act,
    AddressOf,
    Arguments,
    Location,
    Operand,
    Register,
    Statement,
    Term,
)
from ...model.instructions import Instruction, Proxy, Scope, Sem
from ...model.program import Barrier, Space
from ...model.suggest import suggestion
from . import syntax as syntax
from .memory import Memory
from .modifiers import NO_ORDER, Order
from .syntax import Line, Mistake

LEGEND = {
    "r": "a register",
    "x": "a location or a register with its address",
    "y": "a location or a value",
    "s": "a location in shared memory",
    "g": "a location in global memory",
    "m": "a location in shared or global memory",
    "t": "a location in tensor memory",
    "a": "a location in tensor or shared memory",
    "b": "an mbarrier",
    "v": "a register or a number",
    "n": "a number",
    "l": "a label",
}
"""The kinds of operands, by the letters that the table's `operands` are written with."""

NAMED = {
    "s": (Space.SHARED,),
    "g": (Space.GLOBAL,),
    "m": (Space.SHARED, Space.GLOBAL),
    "t": (Space.TMEM,),
    "a": (Space.TMEM, Space.SHARED),
}
"""The kinds that are locations by name, with the spaces they may be in."""

GENERIC = (Space.GLOBAL, Space.SHARED)


class Shape(NamedTuple):
    """`operands` of a row, taken apart: letters, how many are needed, whether the last repeats."""

    kinds: str
    least: int
    repeats: bool

    def kind(self, index: int) -> str:
        return self.kinds[min(index, len(self.kinds) - 1)]


@cache
def shape_of(operands: str) -> Shape:
    """From `r, x[, v]`; what is in brackets may be left out, `...` repeats the last."""
    letters = re.findall(r"[a-z]", operands)
    needed = re.findall(r"[a-z]", operands.split("[")[0])
    return Shape("".join(letters), len(needed), "..." in operands)


@dataclass(frozen=True)
class Opcode:
    """A row of the table: `words` are other legal modifiers, one of `choices` must be given."""

    name: str
    operands: str
    lower: Callable[[Form], Statement]
    order: Order = NO_ORDER
    words: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    section: str = ""


class Use(NamedTuple):
    """A row with the modifiers of one opcode of the text."""

    row: Opcode
    sem: Sem
    scope: Scope
    words: tuple[str, ...]
    choice: str


@dataclass(frozen=True)
class Names:
    """What the names in one thread's code mean."""

    thread: str
    registers: frozenset[str]
    labels: dict[str, int]
    memory: Memory

    def is_register(self, name: str) -> bool:
        return name in self.registers


@dataclass
class Form:
    """The instruction while it is lowered; the accessors check the operand they give."""

    line: Line
    use: Use
    names: Names

    def error(self, message: str, index: int | None = None) -> Mistake:
        place = self.line.place if index is None else self.line.operands[index].place
        return Mistake(place, message)

    @property
    def count(self) -> int:
        return len(self.line.operands)

    def check_count(self) -> None:
        shape = shape_of(self.use.row.operands)
        most = len(shape.kinds)
        if shape.least <= self.count and (shape.repeats or self.count <= most):
            return
        if not shape.kinds:
            raise self.error(f"`{self.use.row.name}` takes no operands", 0)
        legend = "; ".join(f"{kind}: {LEGEND[kind]}" for kind in dict.fromkeys(shape.kinds))
        form = f"`{self.use.row.name} {self.use.row.operands}`"
        raise self.error(f"{self.counted}; the form is {form} ({legend})")

    @property
    def counted(self) -> str:
        return f"{self.count} operand{'' if self.count == 1 else 's'}"

    def has(self, index: int) -> bool:
        return index < self.count

    def operand(self, index: int) -> syntax.Operand:
        return self.line.operands[index]

    # the kinds of operands

    def register(self, index: int) -> str:
        operand = self.operand(index)
        if operand.number is not None or operand.address or operand.bracketed:
            raise self.error(f"`{operand.text}` must be a register, which gets the result", index)
        if "[" in operand.name:
            raise self.error(f"`{operand.text}` is a location; a register gets the result", index)
        return operand.name

    def value(self, index: int) -> Operand:
        """A number, a register, or `&x`."""
        operand = self.operand(index)
        if operand.number is not None:
            return operand.number
        if operand.address:
            return self._address_value(index)
        if operand.bracketed:
            raise self.error(f"`{operand.text}` is memory; load it into a register first", index)
        if self.names.is_register(operand.name):
            return Register(operand.name)
        raise self.error(self._no_register(operand.name), index)

    def _no_register(self, name: str) -> str:
        if self.names.memory.known(name):
            return f"`{name}` is a location; load it first, or write `&{name}` for its address"
        hint = suggestion(name, sorted(self.names.registers))
        return f"{self.names.thread} never sets a register `{name}`{hint}"

    def _address_value(self, index: int) -> AddressOf:
        location = self.location(index)
        if location.space is Space.TMEM:
            raise self.error("the address of tensor memory is no value here", index)
        return AddressOf(location.name)

    def number(self, index: int, low: int, high: int, what: str) -> int:
        operand = self.operand(index)
        if operand.number is None:
            raise self.error(f"{what} must be a number, not `{operand.text}`", index)
        if not low <= operand.number <= high:
            raise self.error(f"{what} is from {low} to {high}, not {operand.number}", index)
        return operand.number

    def bounded(self, index: int, low: int, high: int, what: str) -> Operand:
        """A value whose range is checked here when it is a number."""
        if self.operand(index).number is not None:
            return self.number(index, low, high, what)
        return self.value(index)

    def label(self, index: int) -> int:
        name = self.operand(index).text
        if name not in self.names.labels:
            hint = suggestion(name, self.names.labels) or f"; put `{name}:` where it goes"
            raise self.error(f"{self.names.thread} has no label `{name}`{hint}", index)
        return self.names.labels[name]

    def barrier(self, index: int) -> Barrier:
        return self.names.memory.barrier(
            self._name(index, "an mbarrier"), self.operand(index).place
        )

    def location(self, index: int) -> Location:
        return self.names.memory.find(self._name(index, "a location"), self.operand(index).place)

    def _name(self, index: int, what: str) -> str:
        operand = self.operand(index)
        if operand.number is not None:
            raise self.error(f"{operand.text} is a number where {what} must be", index)
        return operand.name

    def named(self, index: int) -> Location:
        """A location by name, in one of the spaces that the row allows there."""
        kind = shape_of(self.use.row.operands).kind(index)
        self._not_a_register(index)
        location = self.location(index)
        if location.space not in NAMED[kind]:
            raise self.error(
                f"`{location.name}` is in {location.space.value} memory; "
                f"`{self.use.row.name}` wants {LEGEND[kind]} here",
                index,
            )
        return location

    def _not_a_register(self, index: int) -> None:
        name = self.operand(index).name
        if self.names.is_register(name) and not self.names.memory.known(name):
            raise self.error(f"`{name}` is a register; name the location itself here", index)

    def address(self, index: int, proxy: Proxy = Proxy.GENERIC) -> Operand:
        """Global or shared memory: a location's name, or a register that holds its address."""
        name = self._name(index, "a location")
        if self.names.is_register(name) and not self.names.memory.known(name):
            return Register(name)
        location = self.location(index)
        if location.space not in GENERIC:
            raise self.error(f"`{name}` is tensor memory, which only tcgen05 accesses", index)
        if location.proxy not in (Proxy.GENERIC, proxy):
            raise self.error(
                f"`{name}` is declared for the {location.proxy.value} proxy, and "
                f"`{self.use.row.name}` uses the {proxy.value} proxy",
                index,
            )
        self._check_space(location, index)
        return AddressOf(location.name)

    def _check_space(self, location: Location, index: int) -> None:
        for word in self.use.words:
            space = word.split("::")[0]
            if space in ("global", "shared") and space != location.space.value:
                raise self.error(
                    f"`{location.name}` is in {location.space.value} memory, not .{word}; "
                    f"declare `{space} {location.name}` or leave out .{word}",
                    index,
                )

    # what it becomes

    def act(
        self,
        make: Callable[[Arguments], Instruction | None],
        addresses: tuple[Operand, ...] = (),
        operands: tuple[Operand, ...] = (),
        writes: tuple[Term, ...] = (),
        result: str | None = None,
        returns: Term | None = None,
        shapes: tuple[int, ...] = (),
        outcomes: tuple[int, ...] = (),
        counted: str = "",
        instance: object = None,
    ) -> Act:
        return Act(
            self.line.place, self.line.text, make, addresses, operands, shapes, writes, result,
            returns, outcomes, counted, instance,
        )  # fmt: skip

    def fixed(self, instruction: Instruction) -> Act:
        """An instruction without operands that vary."""
        return self.act(lambda arguments: instruction)
