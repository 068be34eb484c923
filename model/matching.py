"""Does the run stand for every schedule? Key condition of the causality engine, checked.

Equal counts are not enough. By induction along the run, matching is the same in all schedules if

- every arrival of phase k+1 comes after phase k completed, and every separate expect_tx of a phase
  before one of its arrivals;
- every wait that observed n completed phases is issued after the (n-1)-th completed (or it could
  pass one lap early), and passes before the (n+1)-th completes (or it could miss its phase);
- every thread enters generation g+1 of a named barrier after generation g completed.

All "comes after" are paths in the event graph, made of edges that the induction has established.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from . import instructions as ins
from .composition import Edge
from .graph import Graph
from .program import Barrier
from .run import Where


@dataclass(frozen=True)
class Unstable:
    """Where matching depends on the schedule: kind `lap` or `count`, and why."""

    kind: str
    where: Where
    label: str
    reason: str
    at: int = 0
    """The node at which another schedule first differs. All that leads to the lowest of these is
    matched alike in every schedule, so that one really happens."""


class Matching:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.run = graph.run
        self.found: list[Unstable] = []
        self.bit: dict[int, int] = {}
        self.reach: list[int] = []
        self._reach()

    @cached_property
    def broken(self) -> list[Unstable]:
        """Contracts that this matching itself breaks: transaction bytes that do not add up, and
        phases that nobody waited for."""
        self.found = []
        for barrier, phases in self.run.phases.items():
            self._bytes(barrier, phases)
            self._unwaited(barrier, phases)
        return self.found

    @cached_property
    def unstable(self) -> list[Unstable]:
        """Arrivals and waits that another schedule may match differently."""
        self.found = []
        for barrier, phases in self.run.phases.items():
            if barrier not in self.awaited:
                continue  # whatever its phases are, nobody looks
            for number, arrivals in enumerate(phases):
                self._arrivals(barrier, number, arrivals)
        for where, seen in self.run.observed.items():
            self._wait(where, seen)
        self._named_barriers()
        return self.found

    def _reach(self) -> None:
        """For every node, which phases, waits and expect_tx come before it as execution."""
        waits = {self.graph.issue_of[where] for where in self.run.observed}
        for number, node in enumerate(self.graph.nodes):
            raises = node.kind == "issue" and self._raises(node.where)
            mine = 0
            if node.kind == "phase" or number in waits or raises:
                mine = self.bit[number] = 1 << len(self.bit)
            for source, _ in node.preds:
                mine |= self.reach[source]
            self.reach.append(mine)

    def _arrivals(self, barrier: Barrier, phase: int, arrivals: list[tuple[Where, int]]) -> None:
        nodes = [(where, self._node_of(where, signal)) for where, signal in arrivals]
        if phase:
            before = self._phase_bit(barrier, phase - 1)
            for where, node in nodes:
                if not self.reach[node] & before:
                    reason = f"may land in phase {phase - 1} instead of phase {phase}"
                    self.found.append(Unstable("count", where, barrier.label, reason, node))
                    break
        for (where, signal), (_, node) in zip(arrivals, nodes, strict=True):
            if signal < 0 and self._raises(where) and not self._held_open(arrivals, where, node):
                reason = f"phase {phase} may complete before this raises what it waits for"
                self.found.append(Unstable("count", where, barrier.label, reason, node))

    def _raises(self, where: Where) -> bool:
        """A bare expect_tx, or a cp.async.mbarrier.arrive that first adds to the pending count."""
        instruction = self.graph.step(where).instruction
        if isinstance(instruction, ins.CpAsyncMbarrierArrive):
            return True
        return (
            isinstance(instruction, ins.MbarrierArrive)
            and instruction.expect > 0
            and not instruction.count
        )

    def _held_open(self, arrivals: list[tuple[Where, int]], where: Where, node: int) -> bool:
        """Some real arrival of the phase, not the step's own, comes after it."""
        for other, signal in arrivals:
            instruction = self.graph.step(other).instruction
            counts = (
                instruction.signals[signal].count
                if signal >= 0
                else isinstance(instruction, ins.MbarrierArrive) and instruction.count
            )
            after = self.reach[self._node_of(other, signal)] & self.bit[node]
            if counts and other != where and after:
                return True
        return False

    def _bytes(self, barrier: Barrier, phases: list[list[tuple[Where, int]]]) -> None:
        """A last phase whose arrivals are all there but whose bytes do not add up."""
        number = self.run.completed[barrier]
        if number >= len(phases) or barrier not in self.run.counts:
            return
        arrived, tx, last = 0, 0, phases[number][0][0] if phases[number] else None
        for where, signal in phases[number]:
            instruction = self.graph.step(where).instruction
            lanes = self.run.agent(where).lanes
            if signal >= 0:
                arrived += instruction.signals[signal].count
                tx -= instruction.signals[signal].bytes
            elif isinstance(instruction, ins.MbarrierArrive):
                arrived += instruction.count * lanes
                tx += instruction.expect - instruction.complete
        if last is not None and arrived == self.run.counts[barrier] and tx != 0:
            word = "more" if tx < 0 else "fewer"
            reason = f"{word} bytes arrive than are expected in phase {number} (tx-count {tx})"
            self.found.append(Unstable("count", last, barrier.label, reason))

    def _unwaited(self, barrier: Barrier, phases: list[list[tuple[Where, int]]]) -> None:
        """Some thread must see a phase complete before anyone arrives for the next (§.4)."""
        waits = self._waits.get(barrier, {})
        for number in range(1, len(phases)):
            for where, signal in phases[number]:
                seen_before = self.reach[self._node_of(where, signal)] & waits.get(number - 1, 0)
                if not seen_before and not self._reborn(barrier):
                    reason = (
                        f"phase {number} begins though nobody has waited for phase {number - 1}"
                    )
                    self.found.append(Unstable("lap", where, barrier.label, reason))
                    break

    @cached_property
    def awaited(self) -> set[Barrier]:
        """The mbarriers that some step of the program waits on."""
        return {
            step.instruction.barrier
            for _, step in self.run.program.steps()
            if isinstance(step.instruction, ins.MbarrierTryWait)
        }

    @cached_property
    def _waits(self) -> dict[Barrier, dict[int, int]]:
        """For each mbarrier and phase, the waits that observed it."""
        found: dict[Barrier, dict[int, int]] = {}
        for where, seen in self.run.observed.items():
            instruction = self.graph.step(where).instruction
            if isinstance(instruction, ins.MbarrierTryWait):
                phases = found.setdefault(instruction.barrier, {})
                bit = self.bit[self.graph.issue_of[where]]
                phases[seen - 1] = phases.get(seen - 1, 0) | bit
        return found

    def _reborn(self, barrier: Barrier) -> bool:
        """The object was initialised again: its phases do not follow each other."""
        return (
            sum(
                isinstance(step.instruction, ins.MbarrierInit)
                and step.instruction.barrier == barrier
                for _, step in self.run.program.steps()
            )
            > 1
        )

    def _node_of(self, where: Where, signal: int) -> int:
        if signal < 0:
            return self.graph.issue_of[where]
        return self.graph.complete_of[where, signal]

    def _phase_bit(self, barrier: Barrier, phase: int) -> int:
        node = self.graph.phase_node.get((barrier, phase))
        return 0 if node is None else self.bit[node]

    def _wait(self, where: Where, seen: int) -> None:
        instruction = self.graph.step(where).instruction
        assert isinstance(instruction, ins.MbarrierTryWait)
        barrier = instruction.barrier
        born = self.run.born[where]
        node = self.graph.issue_of[where]
        if seen - born >= 2:
            issued = 0
            for source, label in self.graph.nodes[node].preds:
                if label.edge is Edge.PO:
                    issued |= self.reach[source]
            if not issued & self._phase_bit(barrier, seen - 2):
                reason = f"may pass on phase {seen - 3} instead of phase {seen - 1}"
                if seen - born == 2:
                    reason = f"may pass on the fresh barrier instead of phase {seen - 1}"
                self.found.append(Unstable("lap", where, barrier.label, reason, node))
        later = self.graph.phase_node.get((barrier, seen))
        if later is not None and not self.reach[later] & self.bit[node]:
            target = f"phase {seen - 1}" if seen > born else "the fresh barrier"
            reason = f"may miss {target}: phase {seen} can complete before it looks"
            self.found.append(Unstable("lap", where, barrier.label, reason, later))

    def _named_barriers(self) -> None:
        for key, generations in self.run.generations.items():
            if key[0] != "bar":
                continue
            for number in range(1, len(generations)):
                join = self.graph.joins.get((key, number - 1))
                for where in generations[number]:
                    node = self.graph.issue_of.get(where)
                    if node is None:
                        continue
                    before = 0 if join is None else self.bit[join]
                    if not self.reach[node] & before:
                        reason = f"may enter generation {number - 1} instead of {number}"
                        self.found.append(Unstable("count", where, f"bar {key[2]}", reason, node))
                        break


def unstable(graph: Graph) -> list[Unstable]:
    """Empty when one run stands for all schedules."""
    return Matching(graph).unstable
