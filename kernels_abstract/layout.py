"""Where arrays and mbarriers lie: declarations with values -> regions and barriers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..model.program import Barrier, Region, Space
from . import syntax
from .expressions import Scope, bounded, integer
from .suggest import or_declare
from .syntax import Position

MBARRIER_BYTES = 8
TMEM_LANES = 128
TMEM_COLUMNS = 512
DEFAULT_SIZE = {Space.TMEM: 1, Space.SHARED: 4, Space.GLOBAL: 4}
"""One 32-bit word: columns in tensor memory, bytes elsewhere."""
MOST_ARRIVALS = 2**20 - 1
"""PTX ISA §9.7.15.16.2: the range of an mbarrier's expected arrival count."""


@dataclass(frozen=True)
class Array:
    """`starts` are the first columns (or bytes) of the elements; `single`: declared without [n]."""

    name: str
    space: Space
    starts: tuple[int, ...]
    size: int
    lanes: tuple[int, int]
    single: bool


@dataclass(frozen=True)
class Mbarriers:
    """The mbarriers of one declaration: `objects[cta][index]`."""

    name: str
    objects: tuple[tuple[Barrier, ...], ...]
    single: bool


@dataclass(frozen=True)
class Ring:
    full: Mbarriers
    empty: Mbarriers
    depth: int


@dataclass
class Layout:
    """Everything that is declared, and the regions already made (shared by all accesses)."""

    ctas: int
    arrays: dict[str, Array] = field(default_factory=dict)
    mbarriers: dict[str, Mbarriers] = field(default_factory=dict)
    rings: dict[str, Ring] = field(default_factory=dict)
    _regions: dict[tuple[object, ...], Region] = field(default_factory=dict)

    def region(
        self,
        array: Array,
        index: int,
        cta: int,
        columns: tuple[int, int],
        rows: tuple[int, int],
        exclusive: bool,
    ) -> Region:
        owner = -1 if array.space is Space.GLOBAL else cta
        key = (array.name, index, owner, columns, rows, exclusive)
        if key not in self._regions:
            label = None if array.single or index < 0 else index
            self._regions[key] = Region(
                array.space, owner, columns, rows, array.name, label, exclusive
            )
        return self._regions[key]

    def element(self, array: Array, index: int, cta: int) -> Region:
        start = array.starts[index]
        return self.region(array, index, cta, (start, start + array.size), array.lanes, False)

    def every_region(self) -> dict[str, list[Region]]:
        """All regions of all arrays, each element in each CTA."""
        found = {}
        for array in self.arrays.values():
            owners = 1 if array.space is Space.GLOBAL else self.ctas
            found[array.name] = [
                self.element(array, index, cta)
                for cta in range(owners)
                for index in range(len(array.starts))
            ]
        return found

    def every_barrier(self) -> list[Barrier]:
        return [b for group in self.mbarriers.values() for row in group.objects for b in row]

    def columns_used(self) -> int:
        """The first tensor-memory column that no array reaches."""
        return self.end(Space.TMEM)

    def end(self, space: Space) -> int:
        return max(
            (max(a.starts) + a.size for a in self.arrays.values() if a.space is space), default=0
        )


class Declarer:
    """Evaluates declarations into a `Layout`. `spend` counts what is made, against the budget."""

    def __init__(self, ctas: int, scope: Scope, spend: Callable[[int, str], None]) -> None:
        self.layout = Layout(ctas)
        self.scope = scope
        self.spend = spend

    def declare(self, declarations: tuple[syntax.Declaration, ...]) -> Layout:
        """Arrays with a place first: the others follow them, without overlap."""
        arrays = [d for d in declarations if isinstance(d, syntax.Array)]
        order = {array.name: None for array in arrays}
        for array in sorted(arrays, key=lambda array: array.at is None):
            self.array(array)
        self.layout.arrays = {name: self.layout.arrays[name] for name in order}
        shared_end = self.layout.end(Space.SHARED)
        for declaration in declarations:
            if isinstance(declaration, syntax.Mbarrier):
                shared_end = self.mbarrier(declaration, shared_end)
        for declaration in declarations:
            if isinstance(declaration, syntax.Ring):
                self.ring(declaration)
        return self.layout

    def number(self, node: syntax.Expression, least: int, what: str) -> int:
        value: int = integer(node, self.scope).run([])
        if value < least:
            raise node.position.error(f"{what} is {value}; it must be at least {least}")
        return bounded(value, node.position)

    def length(self, node: syntax.Expression | None, name: str, copies: int) -> int:
        length = 1 if node is None else self.number(node, 1, f"the length of `{name}`")
        self.spend(length * copies, f"`{name}` has {length:,} elements")
        return length

    def array(self, node: syntax.Array) -> None:
        if node.name in self.layout.arrays:
            raise node.position.error(f"the array `{node.name}` is declared twice")
        count = self.length(node.count, node.name, self.layout.ctas)
        size = DEFAULT_SIZE[node.space]
        if node.size is not None:
            size = self.number(node.size, 1, f"the size of `{node.name}`")
        starts = self.starts(node, count, size)
        array = Array(node.name, node.space, starts, size, self.lanes(node), node.count is None)
        self.layout.arrays[node.name] = array

    def starts(self, node: syntax.Array, count: int, size: int) -> tuple[int, ...]:
        if node.at is None:
            first = self.layout.end(node.space)
        elif node.each is None:
            first = self.number(node.at, 0, f"the place of `{node.name}`")
        else:
            return self.each_start(node, node.at, count)
        return tuple(range(first, first + count * size, size))

    def each_start(self, node: syntax.Array, at: syntax.Expression, count: int) -> tuple[int, ...]:
        inner = Scope(self.scope, counter=[0])
        inner.declare(node.each or "", int, node.position)
        run = integer(at, inner).run
        starts = tuple(run([index]) for index in range(count))
        if min(starts) < 0:
            raise at.position.error(f"`{node.name}` would start at {min(starts)}")
        return starts

    def lanes(self, node: syntax.Array) -> tuple[int, int]:
        if node.space is not Space.TMEM:
            if node.lanes is not None:
                raise node.position.error(f"only tensor memory has lanes; `{node.name}` has bytes")
            return (0, 1)
        if node.lanes is None:
            return (0, TMEM_LANES)
        start, stop = (self.number(each, 0, "a lane") for each in node.lanes)
        if not start < stop <= TMEM_LANES:
            raise node.position.error(
                f"lanes {start}..{stop} of `{node.name}`; tensor memory has lanes 0..{TMEM_LANES}"
            )
        return (start, stop)

    def mbarrier(self, node: syntax.Mbarrier, shared_end: int) -> int:
        """Declares `node`; returns where shared memory is free after it."""
        if node.name in self.layout.mbarriers:
            raise node.position.error(f"the mbarrier `{node.name}` is declared twice")
        length = self.length(node.count, node.name, self.layout.ctas)
        arrivals, start = None, -1
        if node.arrivals is not None:
            arrivals = self.number(node.arrivals, 1, f"the count of `{node.name}`")
            if arrivals > MOST_ARRIVALS:
                raise node.arrivals.position.error(f"an mbarrier counts to {MOST_ARRIVALS} at most")
        elif node.at is not None:
            start = self.number(node.at, 0, f"the place of `{node.name}`")
        else:
            start, shared_end = shared_end, shared_end + length * MBARRIER_BYTES
        single = node.count is None
        objects = tuple(
            tuple(
                barrier(node.name, None if single else index, cta, arrivals, start, index)
                for index in range(length)
            )
            for cta in range(self.layout.ctas)
        )
        self.layout.mbarriers[node.name] = Mbarriers(node.name, objects, single)
        return shared_end

    def ring(self, node: syntax.Ring) -> None:
        if node.name in self.layout.rings:
            raise node.position.error(f"the ring `{node.name}` is declared twice")
        depth = self.number(node.depth, 1, f"the depth of `{node.name}`")
        full, empty = (self.find(name, node.position) for name in (node.full, node.empty))
        for group in (full, empty):
            if len(group.objects[0]) < depth:
                raise node.position.error(
                    f"ring `{node.name}` has depth {depth}, and `{group.name}` has "
                    f"{len(group.objects[0])} mbarriers"
                )
        self.layout.rings[node.name] = Ring(full, empty, depth)

    def find(self, name: str, position: Position) -> Mbarriers:
        if name not in self.layout.mbarriers:
            hint = or_declare(name, self.layout.mbarriers, "mbarrier NAME count N")
            raise position.error(f"no mbarrier is named `{name}`{hint}")
        return self.layout.mbarriers[name]


def barrier(
    name: str, label: int | None, cta: int, arrivals: int | None, start: int, index: int
) -> Barrier:
    """One object; only those the kernel initialises itself have bytes that it may get wrong."""
    if start < 0:
        return Barrier(name, label, cta, arrivals)
    first = start + index * MBARRIER_BYTES
    region = Region(Space.SHARED, cta, (first, first + MBARRIER_BYTES), (0, 1), name, label)
    return Barrier(name, label, cta, arrivals, region)
