"""What the graph builder knows while it walks a run: nodes, strands, and the tables' rules.

`completion.py`, `accesses.py` and `build.py` build on this, each with one part of the job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from . import instructions as ins
from .composition import NO_FENCES, Edge, Label, State
from .graph import Graph, Guard, Injection, Node
from .instructions import Access, Pool, Scope
from .pipes import PipeTracker
from .program import Barrier, Choice, Region, Step
from .readings import ASSUMPTIONS, LANES_TOGETHER, Reading
from .registers import RegisterFile
from .rules import Kind, Rule, RuleTable
from .run import Run, Where
from .strand import Strand

SHARED = frozenset(ASSUMPTIONS) - {LANES_TOGETHER}
ADDRESS_NOTE = "cp and mma overlap but do not start at the same address"
METAL_NOTE = "the barrier's flags do not name device memory"
PO = Label(Edge.PO)
LOCKSTEP = Label(Edge.PO, "lanes-run-together")
ISSUE = Label(Edge.ISSUE)
RIDE = Label(Edge.RIDE, "in-flight")
AFTER_PO = Label(Edge.BEGIN, "po")
AFTER_ISS = Label(Edge.BEGIN, "iss")
PASS_ALL_ON = {"acquire-tcgen05", "after_thread_sync"}
PIPED_ACROSS = ("pipelined-in-warp", "pipelined-across")
TCGEN05_POOLS = (Pool.TCGEN05_LD, Pool.TCGEN05_ST, Pool.TCGEN05_MMA)
BOUNDED_POOLS = (*TCGEN05_POOLS, Pool.WGMMA)
"""Pools whose accesses begin where a BOUND rule says, not at their issue."""

Wanted = Callable[[Region], bool]
Decide = Callable[[Choice], bool]


def every_branch(choice: Choice) -> bool:
    """For `decide`: both outcomes at once. More order than any real outcome gives, so what it
    leaves unordered is unordered whatever the branches do."""
    return True


@dataclass
class Traits:
    """What the tables say about one instruction, looked up once."""

    instruction: ins.Instruction
    accesses: tuple[Access, ...]
    covers: list[Rule]
    bounds: list[Rule]
    begins: bool
    """Its accesses take part: some are wanted, or its completion signals something."""
    special: bool
    """It synchronizes, fences or groups; the rest only moves data."""
    idle: bool = False
    """Nothing in the tables concerns it: it gets no node."""


SPECIAL = (
    ins.Bar, ins.BarWarpSync, ins.ClusterArrive, ins.Use,
    ins.Fence, ins.FenceMbarrierInit, ins.FenceProxyAsync, ins.FenceProxy, ins.Tcgen05Fence,
    ins.MbarrierTryWait, ins.MbarrierArrive, ins.ClusterWait,
    ins.BulkCommitGroup, ins.CpAsyncCommitGroup, ins.WgmmaCommitGroup,
)  # fmt: skip


class Builder:
    """State of the walk, and the steps that all parts share."""

    def __init__(
        self, run: Run, reading: Reading, table: RuleTable, wanted: Wanted, decide: Decide | None
    ) -> None:
        self.graph = Graph(run, reading, table)
        self.decide = decide
        self.run = run
        self.reading = reading
        self.table = table
        self.wanted = wanted
        widest = replace(reading.one_pass, assumptions=reading.assumptions | SHARED)
        self.reading = widest
        self.rules = table.names(widest)
        if widest.since("9.2"):
            self.rules |= table.names(widest.at("9.3"))
        self.covers = table.active(widest, Kind.COVER)
        self.bound_rules = [r for r in table.active(widest, Kind.BOUND) if r.at]
        self._known_traits: dict[int, Traits] = {}
        self._rules_of_class: dict[type[ins.Instruction], tuple[list[Rule], list[Rule]]] = {}
        self.program_order = "po" in self.rules
        self.in_order = table["iss"].takes if "iss" in self.rules else frozenset[Pool]()
        self.issue_in_order = "issue" in self.rules
        self.lockstep = "lanes-run-together" in self.rules
        self.strands: dict[object, Strand] = {}
        self.register_files: dict[int, RegisterFile] = {}
        self.by_guard: dict[tuple[Choice, bool], int] = defaultdict(int)
        self.entered: dict[Where, int] = {}
        self.waiting: dict[tuple[Barrier, int], list[tuple[int, Label]]] = defaultdict(list)
        self.phase_of: dict[tuple[Where, int], tuple[Barrier, int]] = {}
        for barrier, phases in run.phases.items():
            for number, arrivals in enumerate(phases):
                for arrival in arrivals:
                    self.phase_of[arrival] = (barrier, number)

    def _taken(self, step: Step) -> bool:
        if not step.guard or self.decide in (None, every_branch):
            return True
        assert self.decide is not None
        return all(self.decide(choice) is outcome for choice, outcome in step.guard)

    def _guard(self, step: Step) -> Guard:
        """Branch outcomes the step depends on; none once the choices are decided."""
        return step.guard if self.decide is None else frozenset()

    # --- nodes -------------------------------------------------------------------------------

    def _node(self, kind: str, where: Where, preds: list[tuple[int, Label]]) -> int:
        self.graph.nodes.append(Node(kind, where, preds))
        return len(self.graph.nodes) - 1

    def _strand(self, where: Where) -> Strand:
        agent = self.run.agent(where)
        mates = self.graph.warp_mates[agent.cta, agent.warp]
        merged = self.lockstep and agent.converged and mates > 1
        key: object = (agent.cta, agent.warp) if merged else where.agent
        strand = self.strands.get(key)
        if strand is None:
            pipes = PipeTracker(self.reading, self.rules)
            strand = self.strands[key] = Strand(len(self.strands), merged, pipes)
        return strand

    def _registers(self, where: Where) -> RegisterFile:
        file = self.register_files.get(where.agent)
        if file is None:
            file = self.register_files[where.agent] = RegisterFile(self.graph.values)
        return file

    def _enter(self, strand: Strand, where: Where) -> int:
        """The issue node of a step, after the steps of earlier positions.

        Lanes run together until one has to wait, or lags behind; from then on it follows its own
        steps only, and the others do not follow it, until a barrier brings them together.
        """
        step = self.run.step(where)
        position = step.position if strand.merged and step.position >= 0 else where.step
        strand.step_position = position
        apart = where.agent in strand.apart
        strand.lagging = apart or position < strand.position
        if strand.lagging:
            if not apart:
                strand.part(where.agent)
            self._settle(strand, where.agent)
            preds = [(node, PO) for node in strand.last.get(where.agent, ())]
        else:
            if position > strand.position:
                self._advance(strand, where, position)
            preds = [(node, PO if a in (-1, where.agent) else LOCKSTEP) for node, a in strand.heads]
            preds += [(node, PO) for node in strand.returned.pop(where.agent, ())]
        node = self._node("issue", where, preds)
        self.graph.issue_of[where] = node
        waits = isinstance(step.instruction, (ins.MbarrierTryWait, ins.ClusterWait))
        if strand.merged and waits and not strand.lagging:
            strand.part(where.agent)
        elif not strand.lagging:
            strand.group.append((node, where.agent))
        strand.last[where.agent] = [node]
        return node

    def _advance(self, strand: Strand, where: Where, position: int) -> None:
        """All lanes' steps of the last position come before those of the next."""
        if strand.group:
            strand.heads, strand.group = strand.group, []
            if len(strand.heads) > 2:
                preds = [(node, PO) for node, _ in strand.heads]
                strand.heads = [(self._node("join", where, preds), -1)]
        self._settle(strand)
        strand.position = position

    def _leave(self, strand: Strand, where: Where, node: int) -> None:
        """Later steps follow `node` instead of the issue node (a barrier that was passed)."""
        strand.group = [(node, a) if a == where.agent else (n, a) for n, a in strand.group]
        strand.last[where.agent] = [node]
        strand.rejoin(where.agent)

    def _settle(self, strand: Strand, agent: int | None = None) -> None:
        """Accesses of the position just left (or of one lane) become pending for later steps."""
        kept = []
        for event in strand.fresh:
            if agent is not None and event.where.agent != agent:
                kept.append(event)
                continue
            bit = 1 << event.number
            if event.pool is Pool.GENERIC:
                strand.generic[NO_FENCES] |= bit
                strand.done_generic |= bit
            else:
                strand.pending[event.pool] |= bit
        strand.fresh = kept

    def _earlier(self, strand: Strand, agent: int) -> int:
        """Accesses of the strand that program order puts before the present step: what other
        lanes did in step, and what the lane did itself."""
        if not strand.merged:
            return -1
        if strand.lagging:
            return strand.apart[agent] | strand.by_agent[agent]
        return ~(strand.lagged_all & ~strand.by_agent[agent])

    def _implied(self, guard: Guard) -> int:
        """Accesses that are only executed when `guard` holds too."""
        if not guard:
            return -1
        mask = -1
        for item in guard:
            mask &= self.by_guard[item]
        return mask

    def _rules_at(self, kind: type[ins.Instruction]) -> tuple[list[Rule], list[Rule]]:
        if kind not in self._rules_of_class:
            self._rules_of_class[kind] = (
                [r for r in self.covers if issubclass(kind, r.at)],
                [r for r in self.bound_rules if r.name != "iss" and issubclass(kind, r.at)],
            )
        return self._rules_of_class[kind]

    def _traits(self, instruction: ins.Instruction) -> Traits:
        known = self._known_traits.get(id(instruction))
        if known is None:
            accesses = tuple(a for a in instruction.accesses if self.wanted(a.region))
            covers, bounds = self._rules_at(type(instruction))
            known = self._known_traits[id(instruction)] = Traits(
                instruction,
                accesses,
                [r for r in covers if r.when(instruction)],
                [r for r in bounds if r.when(instruction)],
                bool(accesses or instruction.signals or instruction.pool is Pool.TCGEN05_MMA),
                isinstance(instruction, SPECIAL),
            )
            known.idle = not (known.covers or known.bounds or known.begins or known.special)
        return known

    def _when(self, bits: int, mask: int) -> int:
        """Of `bits`, those that imply the guard of the step, whose accesses `mask` is."""
        self.graph.conditional |= bits & ~mask
        return bits & mask

    def _inject(self, node: int, bits: int, state: State, visible: Scope, rule: Rule) -> None:
        reads, writes = bits & self.graph.reads, bits & ~self.graph.reads
        injections = self.graph.nodes[node].injections
        if reads:
            injections.append(Injection(reads, state._replace(visible=Scope.SYS), rule.name))
        if writes:
            injections.append(Injection(writes, state._replace(visible=visible), rule.name))
