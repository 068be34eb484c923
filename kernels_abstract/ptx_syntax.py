"""What the PTX parser returns: entries with flat instruction lists, names resolved, places kept."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

TYPE_BITS = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16,
    "b32": 32, "u32": 32, "s32": 32, "f32": 32, "f16x2": 32, "bf16x2": 32, "tf32": 32,
    "b64": 64, "u64": 64, "s64": 64, "f64": 64, "b128": 128,
}  # fmt: skip


@dataclass(frozen=True)
class Register:
    """A declared register; names of nested scopes are made unique by the parser."""

    name: str
    type: str


@dataclass(frozen=True)
class Special:
    """A special register such as `%tid.x` (PTX ISA §10)."""

    name: str


@dataclass(frozen=True)
class Symbol:
    """The address of a variable, or the name of a function."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Label:
    """A label in operand position: the index of the instruction that it stands before."""

    name: str
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Immediate:
    """A literal; `0f...` and `0d...` come as their bits, decimal fractions as a float."""

    value: int | float


@dataclass(frozen=True)
class Discard:
    """`_`: a result nobody wants."""


@dataclass(frozen=True)
class Address:
    """`[base+offset]`, with the further parts of a tensor coordinate if there are any."""

    base: Operand
    offset: int = 0
    rest: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Vector:
    """`{a, b}`; also `(a, b)` of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Pair:
    """`a|b`: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Negated:
    """`!p`."""

    operand: Operand


Operand = (
    Register | Special | Symbol | Label | Immediate | Discard | Address | Vector | Pair | Negated
)


@dataclass
class PtxInstruction:
    """One instruction: `opcode` with all its modifiers, its guard, its operands, its place."""

    opcode: str
    operands: tuple[Operand, ...]
    line: int
    column: int
    text: str
    guard: Register | None = None
    guard_negated: bool = False
    index: int = -1
    loc: tuple[int, int, int] | None = None
    """File, line and column of the source that `.loc` names, when it is there."""

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.opcode.split("."))

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The type modifiers in order: `cvt.f32.s32` has (f32, s32)."""
        return tuple(part for part in self.parts[1:] if part in TYPE_BITS)

    @property
    def type(self) -> str:
        return self.types[-1] if self.types else "b32"

    @cached_property
    def bits(self) -> int:
        return TYPE_BITS[self.type]

    @cached_property
    def vector_length(self) -> int:
        return next((int(p[1]) for p in self.parts if re.fullmatch(r"v[248]", p)), 1)

    def has(self, *modifiers: str) -> bool:
        return any(modifier in self.parts for modifier in modifiers)


@dataclass(frozen=True)
class Variable:
    """A declared variable or parameter: state space, element type, size in bytes."""

    name: str
    space: str
    type: str
    bytes: int
    align: int
    pointer: bool = False
    """Declared `.ptr` (PTX ISA §5.1.6.3): the parameter is an address."""

    dynamic: bool = False
    """Declared `[]`: its size is given at launch."""


@dataclass
class Entry:
    """A kernel. `tuning` holds `.maxntid` and the like; `variables` those of its own body."""

    name: str
    line: int
    parameters: list[Variable]
    tuning: dict[str, tuple[int, ...]]
    instructions: list[PtxInstruction] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)


@dataclass
class Module:
    """A PTX file: its entries and the variables of module scope."""

    path: str
    lines: list[str]
    version: str
    entries: dict[str, Entry]
    variables: list[Variable]
