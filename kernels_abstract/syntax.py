"""The syntax tree of the kernel language: what `parser.py` makes and `expand.py` reads.

Every node keeps its `position`, so that every mistake can be shown where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..model.program import InputError, Space


@dataclass(frozen=True)
class Position:
    """A place in a kernel's text."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def error(self, message: str) -> InputError:
        return InputError(message, str(self))


# --- expressions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    position: Position


@dataclass(frozen=True)
class Constant(Node):
    """An integer, a boolean or a word."""

    value: int | bool | str


@dataclass(frozen=True)
class Name(Node):
    """A variable, a parameter, an array, an mbarrier, a ring or a register: the use decides."""

    name: str


@dataclass(frozen=True)
class ListOf(Node):
    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Unary(Node):
    operator: str
    operand: Expression


@dataclass(frozen=True)
class Binary(Node):
    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Conditional(Node):
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True)
class Apply(Node):
    """`min(a, b)` in an expression; `merge(s, s_other)` of registers."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Subscript(Node):
    """`array[index]`, `mbarrier[index]` or `list[index]`."""

    base: Expression
    index: Expression


@dataclass(frozen=True)
class Piece(Node):
    """A part of an element: `.columns(from, count)`, `.bytes`, `.lanes` or `.part(k, n)`."""

    base: Expression
    kind: str
    first: Expression
    second: Expression


@dataclass(frozen=True)
class AtCta(Node):
    """`x@0`: the instance of CTA 0; `x@all`: those of every CTA."""

    base: Expression
    cta: Expression


Expression = (
    Constant | Name | ListOf | Unary | Binary | Conditional | Apply | Subscript | Piece | AtCta
)


# --- statements -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Let(Node):
    name: str
    value: Expression


@dataclass(frozen=True)
class Assign(Node):
    """`x = expression` on a variable, or `r = f(r1, r2)` on registers."""

    name: str
    value: Expression


@dataclass(frozen=True)
class Call(Node):
    procedure: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class For(Node):
    """`for v in a..b` when `stop` is given, `for v in list` and `for i, v in list` otherwise."""

    variable: str
    index: str | None
    start: Expression
    stop: Expression | None
    body: Block


@dataclass(frozen=True)
class If(Node):
    condition: Expression
    then: Block
    otherwise: Block


@dataclass(frozen=True)
class Branch(Node):
    """A branch on data: both sides are part of the program."""

    site: str
    register: str
    then: Block
    otherwise: Block


@dataclass(frozen=True)
class Tile(Node):
    value: Expression


@dataclass(frozen=True)
class Instruction(Node):
    """`opcode left <- right clause ...`; `right` is None without an arrow."""

    opcode: str
    left: tuple[Expression, ...]
    right: tuple[Expression, ...] | None
    clauses: tuple[tuple[str, tuple[Expression, ...]], ...]


Statement = Let | Assign | Call | For | If | Branch | Tile | Instruction
Block = tuple[Statement, ...]


# --- declarations ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter(Node):
    """`words` lists what a word parameter may be; the type of the others is their default's."""

    name: str
    default: int | bool | str | tuple[int, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cluster(Node):
    size: Expression


@dataclass(frozen=True)
class Require(Node):
    condition: Expression
    message: str


@dataclass(frozen=True)
class Array(Node):
    """`at` places element 0 and the others after it, or each element `each` by itself."""

    space: Space
    name: str
    count: Expression | None
    size: Expression | None = None
    lanes: tuple[Expression, Expression] | None = None
    at: Expression | None = None
    each: str | None = None


@dataclass(frozen=True)
class Mbarrier(Node):
    """`arrivals` is None for an uninitialised object, whose `mbarrier.init` gives the count."""

    name: str
    count: Expression | None
    arrivals: Expression | None
    at: Expression | None = None


@dataclass(frozen=True)
class Ring(Node):
    name: str
    full: str
    empty: str
    depth: Expression


@dataclass(frozen=True)
class Procedure(Node):
    name: str
    parameters: tuple[str, ...]
    body: Block


@dataclass(frozen=True)
class Axis(Node):
    name: str
    start: Expression
    stop: Expression


@dataclass(frozen=True)
class Who(Node):
    """How many warps (or threads, one agent each) an agent has, and its first warp's number."""

    unit: str
    count: Expression | None = None
    first: Expression | None = None
    stop: Expression | None = None
    axes: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Agent(Node):
    """`cta` is None when every CTA has one."""

    name: str
    who: Who
    cta: Expression | None
    body: Block


Declaration = Cluster | Require | Let | Array | Mbarrier | Ring | Procedure | Agent


@dataclass(frozen=True)
class Kernel(Node):
    name: str
    parameters: tuple[Parameter, ...]
    declarations: tuple[Declaration, ...]
    lines: tuple[str, ...]
    """The text, for views and for each step's source."""

    @property
    def purpose(self) -> str:
        """The first comment of the file."""
        comments = (line.lstrip("# ").strip() for line in self.lines if line.startswith("#"))
        return next(comments, "")

    @property
    def path(self) -> str:
        return self.position.file
