"""Which accesses conflict: overlapping bytes, at least one of which changes them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from .graph import Graph, members
from .instructions import Pool, Role, Scope
from .program import InputError, Program, Region, Space


@dataclass
class Regions:
    """The distinct regions of a program that some access changes, and which of them overlap."""

    overlapping: dict[Region, list[Region]] = field(default_factory=dict)
    changing: frozenset[Region] = frozenset()
    """Every region that some access changes bytes of, whatever location was asked for."""

    def wanted(self, region: Region) -> bool:
        """Accesses that the graph keeps: those that can conflict, and all of tensor memory, since
        another access may ride on them (`pipelined-ld-st`)."""
        return region in self.overlapping or region.space is Space.TMEM


def location_regions(program: Program, location: str) -> list[Region]:
    """Regions of `A` or `A[i]`, in every CTA. Errors: InputError for an unknown name."""
    name, bracket, rest = location.partition("[")
    known = ", ".join(sorted(program.arrays)) or "none"
    if name not in program.arrays:
        raise InputError(f"unknown location {location!r}; arrays: {known}")
    regions = program.arrays[name]
    if not bracket:
        return regions
    if not rest.endswith("]") or not rest[:-1].isdigit():
        raise InputError(f"location {location!r}: write A or A[i], with a number i")
    regions = [region for region in regions if region.index == int(rest[:-1])]
    if not regions:
        raise InputError(f"location {location!r}: {name} has no such element")
    return regions


def find_regions(program: Program, location: str | None) -> Regions:
    """Regions that can take part in a conflict whose bytes touch `location` (all when None)."""
    key = ("regions", location)
    if key not in program.memo:
        program.memo[key] = _find_regions(program, location)
    regions: Regions = program.memo[key]
    return regions


def _find_regions(program: Program, location: str | None) -> Regions:
    uses = _uses(program)
    focus = None if location is None else location_regions(program, location)
    everywhere = _overlaps(uses, None)
    narrowed = everywhere if focus is None else _overlaps(uses, focus)
    return Regions(narrowed, frozenset(everywhere))


@dataclass
class Usage:
    """How a region is used: `changed` by some access; `owner`, the only agent that touches it,
    with generic accesses (-1: several agents, or asynchronous ones)."""

    changed: bool = False
    owner: int | None = None
    lanes: int = 1
    alike: bool = True
    """One thread, or lanes that each touch their own part of exactly these bytes."""


def _uses(program: Program) -> dict[Region, Usage]:
    uses: dict[Region, Usage] = {}
    for number, agent in enumerate(program.agents):
        for step in agent.steps:
            owner = number if step.instruction.pool is Pool.GENERIC else -1
            for signal in step.instruction.signals:
                for access in signal.objects:
                    uses.setdefault(access.region, Usage()).owner = -1
            for access in step.instruction.accesses:
                usage = uses.get(access.region)
                if usage is None:
                    usage = uses[access.region] = Usage(owner=owner, lanes=agent.lanes)
                usage.alike &= agent.lanes == 1 or access.region.exclusive
                usage.changed |= access.role.changes or access.role is Role.ATOMIC
                if usage.owner != owner:
                    usage.owner = -1
    return uses


def _may_race(one: Usage, other: Usage) -> bool:
    """One side changes the bytes, and they are not one thread's own generic accesses."""
    same_lanes = one is other or one.lanes == other.lanes == 1
    private = one.owner == other.owner != -1 and one.alike and other.alike and same_lanes
    return (one.changed or other.changed) and not private


def _overlaps(uses: dict[Region, Usage], focus: list[Region] | None) -> dict[Region, list[Region]]:
    """Sweep each memory by columns; keep regions with a changing partner (itself included)."""
    memories: dict[tuple[object, int], list[Region]] = defaultdict(list)
    for region in uses:
        if focus is None or any(region.overlaps(place) for place in focus):
            memories[region.space, region.cta].append(region)
    found: dict[Region, list[Region]] = {}
    for regions in memories.values():
        regions.sort(key=lambda r: (r.columns, r.rows, r.array))
        active: list[Region] = []
        for region in regions:
            active = [other for other in active if other.columns[1] > region.columns[0]]
            for other in [*active, region]:
                if not _may_race(uses[region], uses[other]) or not region.overlaps(other):
                    continue
                if focus is not None and not _touches(region, other, focus):
                    continue
                found.setdefault(region, []).append(other)
                if other is not region:
                    found.setdefault(other, []).append(region)
            active.append(region)
    return found


def _touches(one: Region, other: Region, focus: list[Region]) -> bool:
    """Do the common bytes of two regions meet the location asked for?"""
    common = Region(
        one.space, one.cta,
        (max(one.columns[0], other.columns[0]), min(one.columns[1], other.columns[1])),
        (max(one.rows[0], other.rows[0]), min(one.rows[1], other.rows[1])),
    )  # fmt: skip
    return any(common.overlaps(place) for place in focus)


class Conflicts:
    """For an access, the earlier ones it conflicts with, as a bit set."""

    def __init__(self, graph: Graph, regions: Regions) -> None:
        self.graph = graph
        self.regions = regions
        self.reading: dict[Region, int] = defaultdict(int)
        self.changing: dict[Region, int] = defaultdict(int)
        self.atomic: dict[Region, int] = defaultdict(int)
        self.guarded: dict[object, int] = defaultdict(int)
        self.of_step: dict[object, int] = defaultdict(int)
        for event in graph.accesses:
            bit = 1 << event.number
            self.of_step[event.where] |= bit
            for choice, outcome in event.guard:
                self.guarded[choice, outcome] |= bit
            role = event.access.role
            kind = self.reading
            if role.changes:
                kind = self.changing
            elif role is Role.ATOMIC:
                kind = self.atomic
            kind[event.access.region] |= bit

    @cached_property
    def all_earlier(self) -> list[int]:
        """`earlier` of every access."""
        return [self.earlier(number) for number in range(len(self.graph.accesses))]

    def earlier(self, number: int) -> int:
        """Conflicting accesses with a lower number, other than those of the same instruction and
        those of a branch outcome that excludes this one."""
        event = self.graph.accesses[number]
        role = event.access.role
        bits = 0
        for region in self.regions.overlapping.get(event.access.region, ()):
            if role.changes:
                bits |= self.changing[region] | self.atomic[region] | self.reading[region]
            elif role is Role.ATOMIC:
                bits |= self.changing[region] | self.reading[region] | self.atomic[region]
            elif role is Role.OBJECT:
                bits |= self.changing[region]
            else:
                bits |= self.changing[region] | self.atomic[region]
        bits &= (1 << number) - 1
        bits &= ~self.of_step[event.where]
        for choice, outcome in event.guard:
            bits &= ~self.guarded[choice, not outcome]
        return bits & ~self._morally_strong(number, bits)

    def _morally_strong(self, number: int, bits: int) -> int:
        """Strong accesses of the same bytes with mutually inclusive scopes do not race (§8.7)."""
        event = self.graph.accesses[number]
        if event.access.strong is None:
            return 0
        found = 0
        for other in members(bits):
            there = self.graph.accesses[other]
            strong = there.access.strong
            if strong is None or there.access.region != event.access.region:
                continue
            near = there.cta == event.cta
            if near or (min(strong, event.access.strong) >= Scope.CLUSTER):
                found |= 1 << other
        return found
