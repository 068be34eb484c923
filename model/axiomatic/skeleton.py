"""What executions share that differ in values only: the program, its event graph, its relations.

A skeleton has one instruction sequence a thread and one matching of the barriers. Its *events* are
the accesses of the event graph, then one initial write a location. The order that does not depend
on values is in the graph; order that does, through release and acquire patterns (PTX ISA §8.8) and
fence.sc, is a list of *ties*: edges of the graph that hold if some write is observed by some read,
or if one fence.sc comes before another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from .. import instructions as ins
from ..build import build_graph
from ..composition import Context, Edge, Label
from ..graph import AccessEvent, Graph
from ..instructions import Instruction, Pool, Proxy, Role, Scope, Sem
from ..program import Agent, Barrier, Places, Program, Step, Word
from ..readings import Reading
from ..rules import RuleTable
from ..run import Run, Where
from .code import Branch, Location, Test, Thread
from .relations import Relation

READS = (Role.READ, Role.ATOMIC)
WRITES = (Role.WRITE, Role.ATOMIC)


@dataclass(frozen=True)
class Tie:
    """An edge of the graph on a condition: `write` is observed by `read` (events), or, when
    `fences` is set, the first fence.sc comes before the second (indices into `Skeleton.fences`)."""

    source: int
    target: int
    label: Label
    write: int = -1
    read: int = -1
    fences: tuple[int, int] | None = None


@dataclass(frozen=True)
class Fence:
    """A fence.sc: its node in the graph, and where it is."""

    where: Where
    node: int
    scope: Scope
    cta: int


def make_program(
    test: Test,
    code: Sequence[Sequence[Instruction]],
    rows: Sequence[Sequence[int]] | None = None,
) -> Program:
    """The instructions of each thread as a program of agents with one lane. `rows` are their
    lines in the file: threads of one warp that share a row execute it together."""
    places: Places = {thread.cta: (thread.cluster, thread.gpu) for thread in test.threads}
    agents = []
    for number, (thread, lane) in enumerate(zip(test.threads, _lanes(test), strict=True)):
        converged = _converged(test, thread)
        steps = [Step(each) for each in code[number]]
        if converged and rows is not None:
            for step, row in zip(steps, rows[number], strict=False):
                step.position = row
        first = 32 * thread.warp + lane
        agents.append(Agent(thread.name, thread.cta, thread.warp, 1, steps, first, converged))
    barriers = list(dict.fromkeys(test.barriers))
    for agent in agents:
        for step in agent.steps:
            barriers += [b for b in _barriers(step.instruction) if b not in barriers]
    return Program(test.name, {}, agents, {}, barriers, places=places)


def _lanes(test: Test) -> list[int]:
    """The lane of each thread in its warp: threads of one warp are numbered in order."""
    taken: dict[tuple[int, int], int] = {}
    found = []
    for thread in test.threads:
        lane = taken.get((thread.cta, thread.warp), 0)
        taken[thread.cta, thread.warp] = lane + 1
        found.append(lane)
    return found


def _converged(test: Test, thread: Thread) -> bool:
    """Do the threads of the warp stay together: no branches, and one opcode a row of the test
    (an empty cell is a lane that is predicated off)?"""
    mates = [t for t in test.threads if (t.cta, t.warp) == (thread.cta, thread.warp)]
    rows: dict[int, set[str]] = {}
    for statement in (each for mate in mates for each in mate.code):
        rows.setdefault(statement.place.line, set()).add(statement.text.split()[0])
        if isinstance(statement, Branch):
            return False
    return all(len(opcodes) == 1 for opcodes in rows.values())


def _barriers(instruction: Instruction) -> Iterator[Barrier]:
    if isinstance(instruction, ins.MbarrierInstruction):
        yield instruction.barrier
    for signal in instruction.signals:
        yield signal.barrier


class Skeleton:
    """One matching of one program, and the relations over its events that values do not change."""

    def __init__(self, test: Test, run: Run, reading: Reading, table: RuleTable) -> None:
        self.test = test
        self.run = run
        self.reading = reading
        self.graph: Graph = build_graph(run, reading, table)
        self.context = Context.of(reading, table, run.program.places)
        self.accesses: list[AccessEvent] = self.graph.accesses
        self.words = _words(test)
        self.size = len(self.accesses) + len(self.words)

    # --- events ------------------------------------------------------------------------------

    @cached_property
    def initial(self) -> dict[Word, int]:
        """The event of each word's initial write."""
        return {word.word: len(self.accesses) + n for n, word in enumerate(self.words)}

    def region(self, event: int) -> Word:
        """The word that an event accesses."""
        if event < len(self.accesses):
            return self.accesses[event].access.region.word
        return self.words[event - len(self.accesses)].word

    @cached_property
    def by_region(self) -> dict[Word, tuple[list[int], list[int]]]:
        """The reads and the writes of each word; atomic accesses are both."""
        found: dict[Word, tuple[list[int], list[int]]] = {
            region: ([], [event]) for region, event in self.initial.items()
        }
        for event in self.accesses:
            if event.access.region.word in found:
                reads, writes = found[event.access.region.word]
                if event.access.role in READS:
                    reads.append(event.number)
                if event.access.role in WRITES:
                    writes.append(event.number)
        return found

    @cached_property
    def events_of(self) -> dict[Where, tuple[list[int], list[int]]]:
        """For each step, the events of its reads and of its writes, in the order of operands."""
        found: dict[Where, tuple[list[int], list[int]]] = {}
        for event in self.accesses:
            reads, writes = found.setdefault(event.where, ([], []))
            if event.access.role in READS:
                reads.append(event.number)
            if event.access.role in WRITES:
                writes.append(event.number)
        return found

    # --- relations that values do not change -------------------------------------------------

    @cached_property
    def strong(self) -> Relation:
        """Morally strong pairs (§8.7): in program order, or both strong with scopes that include
        each other's thread; by one proxy; of the same address."""
        size = len(self.accesses)
        pairs = [
            (a, b)
            for a in range(size)
            for b in range(size)
            if a != b and self._morally_strong(self.accesses[a], self.accesses[b])
        ]
        return Relation.of(self.size, pairs)

    def _morally_strong(self, a: AccessEvent, b: AccessEvent) -> bool:
        same = a.access.region == b.access.region and a.access.address == b.access.address
        if not same or a.access.proxy is not b.access.proxy:
            return False
        return self._in_order(a, b) or self._in_order(b, a) or self._scopes_meet(a, b)

    def _scopes_meet(self, a: AccessEvent, b: AccessEvent) -> bool:
        one, other = a.access.strong, b.access.strong
        if one is None or other is None:
            return False
        return self.context.meet(one, a.cta, other, b.cta)

    def _in_order(self, a: AccessEvent, b: AccessEvent) -> bool:
        """Program order: not of accesses of asynchronous operations (§8.9.1.1)."""
        generic = a.pool is Pool.GENERIC and b.pool is Pool.GENERIC
        return generic and a.where.agent == b.where.agent and a.where.step < b.where.step

    @cached_property
    def po_loc(self) -> Relation:
        """Program order on overlapping addresses, through one proxy."""
        pairs = [
            (a.number, b.number)
            for a in self.accesses
            for b in self.accesses
            if self._in_order(a, b)
            and a.access.region == b.access.region
            and a.access.address == b.access.address
            and a.access.proxy is b.access.proxy
        ]
        return Relation.of(self.size, pairs)

    @cached_property
    def conflicts(self) -> list[int]:
        """For each access, those of overlapping bytes, when one of the two changes them."""
        rows = [0] * self.size
        for a in self.accesses:
            for b in self.accesses[: a.number]:
                changes = _changes(a) or _changes(b)
                if changes and a.access.region.overlaps(b.access.region) and not _one(a, b):
                    rows[a.number] |= 1 << b.number
                    rows[b.number] |= 1 << a.number
        return rows

    @cached_property
    def blocking(self) -> dict[Where, list[Where]]:
        """For each step that waited, the arrivals without which it would not have passed."""
        run = self.run
        found: dict[Where, list[Where]] = {}
        for where, seen in run.observed.items():
            instruction = run.step(where).instruction
            if isinstance(instruction, ins.MbarrierTryWait):
                phases = run.phases.get(instruction.barrier, [])
                arrivals = [arrival for phase in phases[:seen] for arrival, _ in phase]
                found[where] = arrivals
        for where, (key, generation) in run.generation_of.items():
            found[where] = [w for w in run.generations[key][generation] if w != where]
        return found

    # --- order that values decide ------------------------------------------------------------

    @cached_property
    def fences(self) -> list[Fence]:
        found = []
        for index, agent in enumerate(self.run.program.agents):
            for number, step in enumerate(agent.steps):
                fence, where = step.instruction, Where(index, number)
                if isinstance(fence, ins.Fence) and fence.sem is Sem.SC:
                    node = self.graph.issue_of[where]
                    found.append(Fence(where, node, fence.scope, agent.cta))
        return found

    @cached_property
    def fence_pairs(self) -> list[tuple[int, int]]:
        """Morally strong fences.sc of different threads (first < second), which have an order."""
        return [
            (a, b)
            for b, second in enumerate(self.fences)
            for a, first in enumerate(self.fences[:b])
            if first.where.agent != second.where.agent
            and self.context.meet(first.scope, first.cta, second.scope, second.cta)
        ]

    @cached_property
    def fence_po(self) -> list[tuple[int, int]]:
        """fence.sc of one thread, in program order."""
        return [
            (a, b)
            for a, first in enumerate(self.fences)
            for b, second in enumerate(self.fences)
            if first.where.agent == second.where.agent and first.where.step < second.where.step
        ]

    @cached_property
    def releasing(self) -> list[tuple[int, int]]:
        """Strong accesses that are the first operation of a release pattern: bit and node."""
        sources = {tie.source for tie in self.ties}
        return [
            (1 << event.number, self.graph.issue_of[event.where])
            for event in self.accesses
            if event.access.strong is not None
            and event.pool is Pool.GENERIC
            and self.graph.issue_of[event.where] in sources
        ]

    @cached_property
    def ties(self) -> tuple[Tie, ...]:
        from .patterns import ties

        return tuple(ties(self))


def _words(test: Test) -> list[Location]:
    """One location for each word of memory."""
    words: dict[str, Location] = {}
    for location in test.named.values():
        words.setdefault(location.memory, location)
    return list(words.values())


def _changes(event: AccessEvent) -> bool:
    return event.access.role.changes or event.access.role is Role.ATOMIC


def _one(a: AccessEvent, b: AccessEvent) -> bool:
    """Operands of one operation, which are read before it writes."""
    same = a.where == b.where
    return same and a.access.proxy is b.access.proxy and a.access.proxy is not Proxy.ASYNC


def observe_label(scope: Scope, cta: int) -> Label:
    return Label(Edge.OBSERVE, "before_thread_sync", scope=scope, cta=cta)
