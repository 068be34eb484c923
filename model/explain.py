"""Why: schedules for findings, chains of rules for proofs, what is missing and what would help."""

from __future__ import annotations

from collections import deque

from . import instructions as ins
from .causality import Causality, Path
from .composition import Edge
from .graph import AccessEvent, Graph
from .instructions import Pool, Proxy, Role
from .program import Agent, Space
from .run import Where
from .verdict import Place, Proof, ProofStep, ScheduleRow

HAND_OFFS = (Edge.ARRIVE, Edge.SIGNAL, Edge.BAR_IN, Edge.CLUSTER_IN)
UNORDERED_POOLS = frozenset(Pool) - {Pool.GENERIC}


def place_of(graph: Graph, where: Where) -> Place:
    agent = graph.run.agent(where)
    step = graph.step(where)
    instruction = step.instruction
    name = instruction.mnemonic or instruction.text
    if isinstance(instruction, (ins.MbarrierArrive, ins.Bar)):
        name = instruction.text.split()[0]
    mates = graph.warp_mates[agent.cta, agent.warp]
    return Place(
        agent.name, agent.cta, agent.warp, name, step.tile, step.source.line,
        instruction.text + _elsewhere(agent, instruction),
        agent.thread if mates > 1 else None,
    )  # fmt: skip


def _elsewhere(agent: Agent, instruction: ins.Instruction) -> str:
    """The CTA whose memory or mbarrier an instruction is about, when it is not its own."""
    barrier = getattr(instruction, "barrier", None)
    ctas = {access.region.cta for access in instruction.accesses}
    ctas |= {barrier.cta} if barrier is not None else set()
    others = sorted(ctas - {-1, agent.cta})
    return f" @CTA {others[0]}" if len(others) == 1 and agent.cta not in ctas else ""


class Explainer:
    def __init__(self, graph: Graph, causality: Causality) -> None:
        self.graph = graph
        self.causality = causality

    # --- schedules ---------------------------------------------------------------------------

    def schedule(
        self, first: AccessEvent, second: AccessEvent, kind: str = "race"
    ) -> tuple[ScheduleRow, ...]:
        """The fewest steps that let `second` take effect while `first` has yet to.

        Everything that must precede the start of both, in the order of the run; then the second
        access, then the first. Branches go as the two accesses need, and else are not taken.
        A proxy finding is in order as execution: its accesses are shown where they stand.
        """
        needed = self._ancestors([first.issue, second.begin])
        if kind == "proxy" or first.issue not in self._ancestors([second.begin]):
            needed |= self._ancestors([second.issue])
        forced = first.guard | second.guard
        rows = []
        for number in sorted(needed):
            where = self.graph.nodes[number].where
            guard = self.graph.step(where).guard
            executed = all(item in forced or not item[1] for item in guard)
            row = self._row(number, first, second) if executed else None
            if kind == "proxy" and number == first.issue:
                row = ScheduleRow(place_of(self.graph, where), "access", "first")
            if row is not None and where != second.where:
                rows.append(row)
        asynchronous = second.pool in UNORDERED_POOLS
        rows.append(
            ScheduleRow(
                place_of(self.graph, second.where), "access" if asynchronous else "issue", "second"
            )
        )
        if not any(row.mark == "first" for row in rows):
            rows.append(ScheduleRow(place_of(self.graph, first.where), "access", "first"))
        return tuple(rows)

    def _row(self, number: int, first: AccessEvent, second: AccessEvent) -> ScheduleRow | None:
        node = self.graph.nodes[number]
        instruction = self.graph.step(node.where).instruction
        if isinstance(instruction, ins.Compute):
            return None
        if node.kind == "complete":
            return ScheduleRow(place_of(self.graph, node.where), "complete")
        if node.kind == "pass":
            return ScheduleRow(place_of(self.graph, node.where), "pass")
        if node.kind != "issue":
            return None
        if node.where == first.where:
            if first.pool is Pool.GENERIC:
                return None  # a generic access is shown where it takes effect
            return ScheduleRow(place_of(self.graph, node.where), "issue")
        if isinstance(instruction, (ins.Bar, ins.BarWarpSync)) and getattr(
            instruction, "waits", True
        ):
            return ScheduleRow(place_of(self.graph, node.where), "issue")
        event = "pass" if isinstance(instruction, ins.MbarrierTryWait) else "issue"
        return ScheduleRow(place_of(self.graph, node.where), event)

    def _ancestors(self, roots: list[int]) -> set[int]:
        seen = set(roots)
        queue = list(roots)
        while queue:
            for source, _ in self.graph.nodes[queue.pop()].preds:
                if source not in seen:
                    seen.add(source)
                    queue.append(source)
        return seen

    # --- what is missing ---------------------------------------------------------------------

    def missing(self, first: AccessEvent, second: AccessEvent, kind: str) -> tuple[str, str]:
        """The edge that is not there, and what would supply it."""
        one = self.graph.step(first.where).instruction.text
        two = self.graph.step(second.where).instruction.text
        if kind == "proxy":
            return (
                f"no fence.proxy.async between {one} ({first.access.proxy.value} proxy) and "
                f"{two} ({second.access.proxy.value} proxy)",
                "a fence.proxy.async after the first access and before the hand-off",
            )
        release = self._hand_off(first, second)
        if release is None:
            if first.strand == second.strand:
                return (
                    f"program order does not order {one} before {two}: the first is asynchronous",
                    f"{completion(first)} between them, and a wait for it",
                )
            return (
                f"nothing orders {one} before {two}: no path of instructions leads there",
                self._barrier_remedy(first, second),
            )
        where, edge = release
        hand_off = self.graph.step(where).instruction.text
        if not self._completes_before(first, where):
            return (
                f"{one} need not have finished when {hand_off} hands its bytes on",
                f"{completion(first)} between {one} and {hand_off}",
            )
        scope = self._scope_problem(first, second)
        if scope:
            return scope
        return (
            f"{hand_off} is reached after {one}, but does not order it before {two}",
            "tcgen05.fence::before_thread_sync before the hand-off and "
            "tcgen05.fence::after_thread_sync after the wait"
            if Proxy.TMEM in (first.access.proxy, second.access.proxy)
            else "a release at the hand-off and an acquire at the wait, of wide enough scope",
        )

    def _hand_off(self, first: AccessEvent, second: AccessEvent) -> tuple[Where, Edge] | None:
        """The first hand-off on a shortest path of execution from one access to the other."""
        came: dict[int, tuple[int, Edge]] = {}
        queue = deque([first.issue])
        seen = {first.issue}
        successors = self.graph.successors
        target = second.issue
        while queue and target not in seen:
            number = queue.popleft()
            for after, label in successors.get(number, ()):
                if after not in seen and after <= target:
                    seen.add(after)
                    came[after] = (number, label.edge)
                    queue.append(after)
        if target not in seen:
            return None
        found = None
        at = target
        while at != first.issue:
            at, edge = came[at]
            if edge in HAND_OFFS:
                found = (self.graph.nodes[at].where, edge)
        return found

    def _completes_before(self, first: AccessEvent, where: Where) -> bool:
        """Does some rule complete the access at or before the hand-off?"""
        limit = max(number for number in self._nodes_of(where))
        bit = 1 << first.number
        return any(
            injection.bits & bit
            for number, injection in self.causality.injections()
            if number <= limit
        )

    def _nodes_of(self, where: Where) -> list[int]:
        nodes = [self.graph.issue_of[where]]
        nodes += [n for (w, _), n in self.graph.complete_of.items() if w == where]
        return nodes

    def _scope_problem(self, first: AccessEvent, second: AccessEvent) -> tuple[str, str] | None:
        if first.cta == second.cta:
            return None
        return (
            f"CTA {first.cta} hands over to CTA {second.cta} with .cta scope, which does not "
            "include the other thread",
            ".release.cluster on the arrive and .acquire.cluster on the wait",
        )

    def _barrier_remedy(self, first: AccessEvent, second: AccessEvent) -> str:
        if first.access.region.space is Space.TMEM:
            return f"{completion(first)}, then an arrive that the other agent waits for"
        if first.cta == second.cta:
            return "a barrier between them (bar.sync), or an mbarrier arrive and wait"
        return "a cluster barrier between them, or a release and acquire of cluster scope"

    # --- proofs ------------------------------------------------------------------------------

    def proof(self, first: AccessEvent, second: AccessEvent, hazard: str) -> Proof | None:
        path = self.causality.path(first, second)
        if path is None:
            return None
        table = self.graph.table
        assumptions = sorted(
            {
                assumption
                for step in path.hops
                if step.rule in table.rules
                and (assumption := table[step.rule].assumption) is not None
            }
        )
        return Proof(
            first.access.region.label, hazard, place_of(self.graph, first.where),
            place_of(self.graph, second.where), self._steps(path, first, second),
            tuple(assumptions),
        )  # fmt: skip

    def _steps(self, path: Path, first: AccessEvent, second: AccessEvent) -> tuple[ProofStep, ...]:
        steps = []
        before = self._describe(first.where)
        for hop in path.hops:
            node = self.graph.nodes[hop.node]
            after = self._node_text(hop.node)
            if hop.node == second.begin:
                after = self._describe(second.where)
            if hop.rule in ("po", "in-flight") and node.kind in ("join",):
                continue
            if after == before:
                continue
            steps.append(self._proof_step(hop.rule, before, after, node.where))
            before = after
        if path.last:
            steps.append(
                self._proof_step(path.last, before, self._describe(second.where), second.where)
            )
        return tuple(steps)

    def _proof_step(self, rule: str, before: str, after: str, where: Where) -> ProofStep:
        section = self.graph.table[rule].section if rule in self.graph.table.rules else ""
        return ProofStep(rule, section, before, after, self.graph.step(where).source.line)

    def _node_text(self, number: int) -> str:
        node = self.graph.nodes[number]
        if node.barrier is not None:
            return f"{node.barrier.label} completes phase {node.phase}"
        if node.kind == "phase":
            return f"all have arrived at {self.graph.step(node.where).instruction.text}"
        text = self._describe(node.where)
        return f"{text} completes" if node.kind == "complete" else text

    def _describe(self, where: Where) -> str:
        place = place_of(self.graph, where)
        tile = "" if place.tile is None else f" (tile {place.tile})"
        return f"{place.agent}: {place.text}{tile}"


def completion(event: AccessEvent) -> str:
    """The instruction that completes an access of this kind."""
    return {
        Pool.GENERIC: "a release or barrier",
        Pool.CP_ASYNC: "cp.async.wait_group",
        Pool.BULK: "a wait for the copy's completion (mbarrier or bulk group)",
        Pool.TCGEN05_LD: "tcgen05.wait::ld",
        Pool.TCGEN05_ST: "tcgen05.wait::st",
        Pool.TCGEN05_MMA: "tcgen05.commit",
        Pool.WGMMA: "wgmma.wait_group",
    }.get(event.pool, "an instruction that waits for its completion")


def is_read(event: AccessEvent) -> bool:
    return event.access.role is Role.READ
