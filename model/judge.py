"""From orders to findings: conflicting pairs without order, grouped and graded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .causality import CLOCK, Before, Causality
from .conflicts import Conflicts
from .graph import AccessEvent, Graph, Value, members
from .instructions import Proxy, Role
from .program import Region
from .readings import Reading

EQUAL_VALUES = "equal values"
DEAD_VALUE = "value is dead"

Static = tuple[str, int, int, str, str]
"""An instruction of the kernel: agent name, line, column, operand, array."""


@dataclass(frozen=True)
class GroupKey:
    """One finding: a pair of instructions, an array, a kind, a severity and its reason."""

    first: Static
    second: Static
    array: str
    kind: str
    hazard: str
    severity: str
    reason: str
    isa: str = ""
    """The ISA version that leaves the pair unordered, when it is not the reading's own."""


@dataclass
class Group:
    """The instances of a finding: the smallest pair, and the places where it shows."""

    key: GroupKey
    first: int
    second: int
    size: tuple[int, ...]
    """The smallest instance has the lowest tile, CTA and agents."""
    places: set[tuple[str, int | None]] = field(default_factory=set)

    @property
    def count(self) -> int:
        return len(self.places)


@dataclass
class Judgement:
    """What the pairs of one graph come to; `ordered`: for each access, conflicting ones before."""

    graph: Graph
    causality: Causality
    conflicts: Conflicts
    groups: dict[GroupKey, Group]
    ordered: list[int]


class Judge:
    """Judges one graph. `other` is the order of another ISA version, for the notes about it."""

    def __init__(
        self,
        graph: Graph,
        causality: Causality,
        conflicts: Conflicts,
        other: Causality | None,
        in_time: Callable[[], None] = lambda: None,
    ) -> None:
        self.in_time = in_time
        self.graph = graph
        self.causality = causality
        self.conflicts = conflicts
        self.other = other
        self.reading: Reading = causality.context.reading
        self.groups: dict[GroupKey, Group] = {}
        self.before: list[Before] = []
        self.static: list[Static] = [self._static(event) for event in graph.accesses]
        self.by_static: dict[Static, int] = {}
        for number, key in enumerate(self.static):
            self.by_static[key] = self.by_static.get(key, 0) | 1 << number
        self.dead = sum(1 << event.number for event in graph.accesses if not event.used)
        self.bounds = sum(
            1 << event.number
            for event in graph.accesses
            if event.access.role in (Role.ALLOC, Role.FREE)
        )
        self.racing = 0
        self._signatures: dict[int, object | None] = {}
        self._numbers: dict[object, int] = {}

    def _static(self, event: AccessEvent) -> Static:
        source = self.graph.step(event.where).source
        agent = self.graph.run.agent(event.where)
        access = event.access
        return (agent.name, source.line, source.column, access.operand, access.region.array)

    def judge(self) -> Judgement:
        conflicting = self.conflicts.all_earlier
        self.before = [
            self.causality.before(event, among)
            for event, among in zip(self.graph.accesses, conflicting, strict=True)
        ]
        unordered = [c & ~b.surely for c, b in zip(conflicting, self.before, strict=True)]
        for number, bits in enumerate(unordered):
            for _, doubtful in self.before[number].doubtful:
                bits &= ~doubtful
            if bits:
                self.racing |= bits | 1 << number
        for number, bits in enumerate(unordered):
            if number % CLOCK == 0:
                self.in_time()
            if bits:
                self._sort(number, bits)
        for number, bits in enumerate(conflicting):
            self._outside_its_life(number, bits & self.before[number].surely)
        if self.other is not None:
            self._other_version(conflicting)
        ordered = [c & b.surely for c, b in zip(conflicting, self.before, strict=True)]
        return Judgement(self.graph, self.causality, self.conflicts, self.groups, ordered)

    def _sort(self, number: int, bits: int) -> None:
        """Split the unordered partners of one access by what is missing, then by instruction."""
        before = self.before[number]
        for reason, doubtful in before.doubtful:
            some = bits & doubtful
            bits &= ~some
            self._group(number, some, self._doubt_kind(reason), "note", reason)
        proxy = bits & before.execution
        self._graded(number, proxy, "proxy")
        self._graded(number, bits & ~proxy, "race")

    def _doubt_kind(self, reason: str) -> str:
        return "proxy" if "proxy" in reason or "async" in reason else "race"

    def _graded(self, number: int, bits: int, kind: str) -> None:
        """Errors, unless the value is dead or both writes store the same."""
        if not bits:
            return
        event = self.graph.accesses[number]
        dead = bits if not event.used else bits & self.dead
        if self.reading.dead_load_severity == "note":
            self._group(number, dead, kind, "note", DEAD_VALUE)
            bits &= ~dead
        equal = self._equal_writes(event, bits)
        self._group(number, equal, kind, self.reading.equal_write_severity, EQUAL_VALUES)
        self._group(number, bits & ~equal, kind, "error", "")

    def _group(
        self, number: int, bits: int, kind: str, severity: str, reason: str, isa: str = ""
    ) -> None:
        while bits:
            low = (bits & -bits).bit_length() - 1
            some = bits & self.by_static[self.static[low]]
            bits &= ~some
            self._add(low, number, kind, severity, reason, isa)

    def _add(
        self, first: int, second: int, kind: str, severity: str, reason: str, isa: str
    ) -> None:
        one, two = self._in_tile_order(first, second)
        if {one.access.role, two.access.role} & {Role.ALLOC, Role.FREE}:
            kind = "lifetime" if kind == "race" else kind
        key = GroupKey(
            self.static[one.number], self.static[two.number], one.access.region.array, kind,
            hazard(one, two), severity, reason, isa,
        )  # fmt: skip
        tile = self.graph.step(two.where).tile
        size = (-1 if tile is None else tile, two.cta, two.where.agent, one.where.agent)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(key, one.number, two.number, size)
        elif size < group.size:
            group.first, group.second, group.size = one.number, two.number, size
        group.places.add((one.access.region.label, tile))

    def _in_tile_order(self, first: int, second: int) -> tuple[AccessEvent, AccessEvent]:
        """The access of the earlier tile first; the run's order where tiles say nothing."""
        one, two = self.graph.accesses[first], self.graph.accesses[second]
        a, b = self.graph.step(one.where).tile, self.graph.step(two.where).tile
        if a is not None and b is not None and a > b:
            return two, one
        return one, two

    # --- equal values ------------------------------------------------------------------------

    def _equal_writes(self, event: AccessEvent, bits: int) -> int:
        """Partners that store the same value, computed from loads that do not race."""
        if event.access.role is not Role.WRITE or event.number not in self.graph.stored:
            return 0
        mine = self._stored(event.number)
        if mine is None:
            return 0
        equal = 0
        for other in members(bits):
            there = self.graph.accesses[other]
            same_bytes = there.access.region == event.access.region
            if same_bytes and other in self.graph.stored and self._stored(other) == mine:
                equal |= 1 << other
        return equal

    def _stored(self, number: int) -> object | None:
        parts = [self._signature(value) for value in self.graph.stored[number]]
        return None if None in parts else tuple(parts)

    def _signature(self, index: int) -> object | None:
        """What a value is: a load of known bytes, or a function of such. None: unknown.

        Iterative, since values nest as deep as the program is long; equal values share a number.
        """
        stack = [index]
        while stack:
            at = stack[-1]
            if at in self._signatures:
                stack.pop()
                continue
            value = self.graph.values[at]
            missing = [o for o in value.operands if o not in self._signatures]
            if missing:
                stack.extend(missing)
                continue
            self._signatures[at] = self._intern(value)
            stack.pop()
        return self._signatures[index]

    def _intern(self, value: Value) -> object | None:
        if value.function == "load":
            return self._loaded(value.access, value.region)
        if value.function.startswith("undefined"):
            return None
        operands = [self._signatures[o] for o in value.operands]
        if None in operands:
            return None
        key = (value.function, tuple(operands))
        return self._numbers.setdefault(key, len(self._numbers))

    def _loaded(self, access: int, region: Region | None) -> object | None:
        """A load is known by its bytes and the writes before it, unless it races."""
        if access < 0:
            changes = region is None or region in self.conflicts.regions.changing
            return None if changes else ("constant memory", region)
        if self.racing & self.graph.reads & 1 << access:
            return None
        writes = self.conflicts.all_earlier[access] & self.before[access].surely
        return ("load", region, writes)

    # --- lifetimes ---------------------------------------------------------------------------

    def _outside_its_life(self, number: int, earlier: int) -> None:
        """Ordered after the end of a life of its columns, or a second birth in one life (F17)."""
        bounds = earlier & self.bounds
        if not bounds:
            return
        last = self.graph.accesses[bounds.bit_length() - 1]
        role = self.graph.accesses[number].access.role
        ended = last.access.role is Role.FREE and role is not Role.ALLOC
        born_twice = last.access.role is Role.ALLOC and role is Role.ALLOC
        if last.access.proxy is Proxy.TMEM and (ended or born_twice):
            reason = "its columns have been deallocated" if ended else "its columns are allocated"
            self._group(number, 1 << last.number, "lifetime", "error", reason)

    # --- another ISA version -----------------------------------------------------------------

    def _other_version(self, conflicting: list[int]) -> None:
        """Pairs that only the other version leaves unordered are notes."""
        assert self.other is not None
        isa = self.other.context.reading.isa
        for number, bits in enumerate(conflicting):
            event = self.other.graph.accesses[number]
            here = bits & self.before[number].surely
            if not here:
                continue
            there = self.other.before(event, here)
            left = here & ~there.surely
            for _, doubtful in there.doubtful:
                left &= ~doubtful
            if left:
                self._group(number, left, "race", "note", f"unordered by ISA {isa}", isa)


def hazard(first: AccessEvent, second: AccessEvent) -> str:
    """What goes wrong if the second access is performed before the first."""
    one, two = first.access.role, second.access.role
    if Role.FREE in (one, two) or Role.ALLOC in (one, two):
        return "use-after-free"
    changing = (Role.WRITE, Role.ATOMIC)
    if one in changing and two in changing:
        return "write-write"
    return "read-before-write" if one in changing else "overwrite-before-last-read"
