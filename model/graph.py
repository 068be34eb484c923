"""The event graph: nodes, labelled edges, and where pending accesses complete.

Each step becomes an issue node; a step with accesses gets a `begin` node (its accesses come after
it), each completion signal a node, each barrier phase a node. Nodes are numbered in the order of
the run, which is a topological order. Sets of accesses are bit sets: bit i is `accesses[i]`.
`build.py` makes the graph from a run, by the rule table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from .composition import Label, State
from .instructions import Access, Pool, Proxy
from .program import Barrier, Choice, Program, Region, Step
from .readings import Reading
from .rules import RuleTable
from .run import Run, Where

K = TypeVar("K")
Guard = frozenset[tuple[Choice, bool]]


@dataclass
class AccessEvent:
    """One access of one step: the unit that conflicts."""

    number: int
    where: Where
    begin: int
    issue: int
    strand: int
    position: int
    access: Access
    pool: Pool
    cta: int
    guard: Guard
    used: bool = True
    """False: a load whose register no vote, branch or memory operation ever needs."""


@dataclass(frozen=True)
class Injection:
    """At a node, `bits` are performed in `state`, by `rule`."""

    bits: int
    state: State
    rule: str


@dataclass
class Node:
    """`kind`: issue, begin, complete, phase, pass or join."""

    kind: str
    where: Where
    preds: list[tuple[int, Label]] = field(default_factory=list)
    injections: list[Injection] = field(default_factory=list)
    effects: list[tuple[Label, int]] = field(default_factory=list)
    """Effects on what the thread knows, each for the accesses of a mask (-1: all)."""
    barrier: Barrier | None = None
    phase: int = -1


@dataclass
class Value:
    """How a register came to be: a load (by access number, -1 when untracked) or a function."""

    function: str
    operands: tuple[int, ...] = ()
    region: Region | None = None
    access: int = -1


@dataclass
class Graph:
    """Events and edges of one run in one reading."""

    run: Run
    reading: Reading
    table: RuleTable
    nodes: list[Node] = field(default_factory=list)
    accesses: list[AccessEvent] = field(default_factory=list)
    other_lanes: dict[int, int] = field(default_factory=dict)
    """Access -> earlier accesses of the same agent that another of its lanes may have made."""
    finals: dict[int, list[Injection]] = field(default_factory=lambda: defaultdict(list))
    """Order that ends at this access and goes no further: same-thread order, iss, pipes."""
    tmem: int = 0
    reads: int = 0
    values: list[Value] = field(default_factory=list)
    stored: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Store access -> what it stores, as indices into `values`."""
    issue_of: dict[Where, int] = field(default_factory=dict)
    complete_of: dict[tuple[Where, int], int] = field(default_factory=dict)
    phase_node: dict[tuple[Barrier, int], int] = field(default_factory=dict)
    conditional: int = 0
    """Accesses with some order that holds on one outcome of a branch only, and was left out."""
    joins: dict[tuple[object, int], int] = field(default_factory=dict)

    @cached_property
    def last_use(self) -> list[int]:
        """For each node, the last node that it leads to."""
        last = [0] * len(self.nodes)
        for number, node in enumerate(self.nodes):
            for source, _ in node.preds:
                last[source] = number
        return last

    @cached_property
    def successors(self) -> dict[int, list[tuple[int, Label]]]:
        """The edges by where they start."""
        found: dict[int, list[tuple[int, Label]]] = {}
        for number, node in enumerate(self.nodes):
            for source, label in node.preds:
                found.setdefault(source, []).append((number, label))
        return found

    @cached_property
    def by_proxy(self) -> dict[Proxy, int]:
        found = dict.fromkeys(Proxy, 0)
        for event in self.accesses:
            found[event.access.proxy] |= 1 << event.number
        return found

    @cached_property
    def by_address(self) -> dict[str, int]:
        """Accesses by virtual address: names of the same bytes are kept apart (§8.6)."""
        return self._sets(lambda event: event.access.address)

    @cached_property
    def by_view(self) -> dict[tuple[Proxy, int, str], int]:
        """Accesses by proxy, CTA and virtual address."""
        return self._sets(lambda event: (event.access.proxy, event.cta, event.access.address))

    @cached_property
    def by_cta(self) -> dict[int, int]:
        return self._sets(lambda event: event.cta)

    @cached_property
    def by_strand(self) -> dict[int, int]:
        return self._sets(lambda event: event.strand)

    def _sets(self, key: Callable[[AccessEvent], K]) -> dict[K, int]:
        found: dict[K, int] = defaultdict(int)
        for event in self.accesses:
            found[key(event)] |= 1 << event.number
        return found

    @cached_property
    def beginning(self) -> dict[int, list[AccessEvent]]:
        """The accesses that begin at a node."""
        found: dict[int, list[AccessEvent]] = {}
        for event in self.accesses:
            found.setdefault(event.begin, []).append(event)
        return found

    @cached_property
    def warp_mates(self) -> Counter[tuple[int, int]]:
        """How many agents share a warp."""
        return Counter((agent.cta, agent.warp) for agent in self.run.program.agents)

    @property
    def program(self) -> Program:
        return self.run.program

    def step(self, where: Where) -> Step:
        return self.run.step(where)


def members(bits: int) -> list[int]:
    """The numbers in a bit set, ascending."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
