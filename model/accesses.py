"""The accesses of a step while the graph is built: where they begin, and what joins the pending."""

from __future__ import annotations

from . import instructions as ins
from .builder import ADDRESS_NOTE, AFTER_ISS, AFTER_PO, BOUNDED_POOLS, PASS_ALL_ON, Traits
from .completion import Completion
from .composition import Edge, Label, State, Via
from .graph import AccessEvent, Injection, Value, members
from .instructions import Access, Pool, Proxy, Role
from .program import Step
from .registers import RegisterFile
from .run import Where
from .strand import Bound, Strand

GROUP_POOLS: dict[type[ins.Instruction], Pool] = {
    ins.BulkCommitGroup: Pool.BULK,
    ins.CpAsyncCommitGroup: Pool.CP_ASYNC,
    ins.WgmmaCommitGroup: Pool.WGMMA,
}
"""What a commit_group gathers."""


class Accesses(Completion):
    """BOUND rules and same-thread order, pipes, registers."""

    def _accesses(
        self, strand: Strand, issue: int, where: Where, step: Step, traits: Traits
    ) -> tuple[list[int], list[AccessEvent]]:
        """Begin nodes (one per group of operands with the same bounds) and access events."""
        instruction = step.instruction
        begins: dict[Proxy, int] = {}
        events = []
        for access in traits.accesses:
            split = access.proxy if instruction.pool is Pool.TCGEN05_MMA else Proxy.GENERIC
            if split not in begins:
                begins[split] = self._begin(strand, issue, where, step, split)
            events.append(self._event(strand, begins[split], issue, where, step, access))
        if not begins and instruction.pool is not Pool.GENERIC:
            proxy = Proxy.TMEM if instruction.pool is Pool.TCGEN05_MMA else Proxy.GENERIC
            begins[proxy] = self._begin(strand, issue, where, step, proxy)
        for event in events:
            self._record(strand, event, instruction)
        if instruction.pool is Pool.TCGEN05_MMA and begins:
            strand.last_mma[where.agent] = list(begins.values())
        return list(begins.values()), events

    def _begin(self, strand: Strand, issue: int, where: Where, step: Step, proxy: Proxy) -> int:
        """Accesses come after this node: at the issue, or at the last bound before it."""
        pool = step.instruction.pool
        if isinstance(step.instruction, ins.MbarrierTryWait):  # it polls before it passes
            before = self.graph.nodes[issue].preds
            preds = [(node, AFTER_PO) for node, label in before if label.edge is Edge.PO]
        elif pool in self.in_order:
            preds = [(issue, AFTER_ISS)]
        elif pool not in BOUNDED_POOLS:
            preds = [(issue, AFTER_PO)] if self.program_order and pool is Pool.GENERIC else []
        else:
            preds = self._last_bounds(strand, issue, where, proxy)
        return self._node("begin", where, preds)

    def _last_bounds(
        self, strand: Strand, issue: int, where: Where, proxy: Proxy
    ) -> list[tuple[int, Label]]:
        """The last bound of each kind before a tcgen05 access. What an earlier bound knows, a
        later one knows too, so none is needed before one that passes all of it on."""
        step = self.run.step(where)
        bounds = list(strand.bounds[step.instruction.pool])
        if proxy is Proxy.ASYNC:
            bounds = sorted(bounds + strand.async_bounds, key=lambda bound: bound.node)
        guard = self._guard(step)
        preds: dict[str, tuple[int, Label]] = {}
        if step.instruction.reads and self.issue_in_order:
            preds["issue"] = (issue, Label(Edge.BEGIN, "issue"))
        for bound in reversed(bounds):
            name = bound.rule.name
            if name in preds or not strand.holds_for(bound, where.agent):
                continue
            if not bound.guard <= guard:
                if not preds.keys() & PASS_ALL_ON:
                    self.graph.conditional = -1
                continue
            preds[name] = (bound.node, Label(Edge.BEGIN, name))
            if name == "after_thread_sync":
                break
        return list(preds.values())

    def _event(
        self, strand: Strand, begin: int, issue: int, where: Where, step: Step, access: Access
    ) -> AccessEvent:
        graph = self.graph
        number = len(graph.accesses)
        agent = self.run.agent(where)
        event = AccessEvent(
            number, where, begin, issue, strand.number, strand.step_position, access,
            step.instruction.pool, agent.cta, self._guard(step),
        )  # fmt: skip
        graph.accesses.append(event)
        if strand.merged:
            strand.note(event)
        bit = 1 << number
        if access.proxy is Proxy.TMEM:
            graph.tmem |= bit
        if access.role in (Role.READ, Role.OBJECT):
            graph.reads |= bit
        for item in self._guard(step):
            self.by_guard[item] |= bit
        return event

    def _record(self, strand: Strand, event: AccessEvent, instruction: ins.Instruction) -> None:
        """Same-thread order that ends here, then the access itself joins the pending ones."""
        bit = 1 << event.number
        agent = event.where.agent
        self._same_thread(strand, event)
        if event.access.proxy is Proxy.TMEM:
            self._in_pipe(strand, event, instruction)
        if event.pool is Pool.TCGEN05_MMA:
            strand.mma[agent, getattr(instruction, "cta_group", 1)] |= bit
        elif event.pool in GROUP_POOLS.values() and not instruction.signals:
            strand.open_group[agent, event.pool] |= bit  # copies to an mbarrier have no group
        strand.own[agent, event.pool] |= bit
        if event.pool is Pool.GENERIC and event.access.proxy is Proxy.TMEM:
            done = Injection(bit, State(via=Via.WAITED), "tcgen05-in-order")
            self.graph.nodes[event.issue].injections.append(done)  # alloc, dealloc: synchronous
        else:
            strand.fresh.append(event)

    def _same_thread(self, strand: Strand, event: AccessEvent) -> None:
        """Program order on the same bytes, and the start of asynchronous operations."""
        finals = self.graph.finals[event.number]
        earlier = self._earlier(strand, event.where.agent)
        rule = ""
        if event.pool is Pool.GENERIC:
            if self.program_order:
                finals.append(Injection(strand.done_generic & earlier, State(), "po"))
                rule = "po"
            self._other_lanes(strand, event)
        elif event.pool in (Pool.BULK, Pool.CP_ASYNC):
            rule = "iss" if event.pool in self.in_order else ""
            self._other_lanes(strand, event)
        elif event.pool is Pool.TCGEN05_MMA and event.access.proxy is Proxy.ASYNC:
            rule = "proxy-fence-in-order" if "proxy-fence-in-order" in self.rules else ""
            self._other_lanes(strand, event)
        if rule:
            for fenced, bits in strand.generic.items():
                if fenced or rule == "iss":
                    finals.append(Injection(bits & earlier, State(fenced=fenced), rule))

    def _other_lanes(self, strand: Strand, event: AccessEvent) -> None:
        """Lanes of one agent run apart: what is not each lane's own part is another lane's too.
        One lane issues the asynchronous operations: all that the lanes touch is others' to it."""
        instruction = self.run.step(event.where).instruction
        collective = isinstance(instruction, (ins.Tcgen05Alloc, ins.Tcgen05Dealloc))
        if collective or self.run.agent(event.where).lanes == 1:
            return
        region = event.access.region
        one_lane = event.access.proxy is Proxy.ASYNC
        same = strand.exclusive[region] if region.exclusive and not one_lane else 0
        others = strand.lanes_touched & ~same | (0 if one_lane else strand.elected)
        if others:
            self.graph.other_lanes[event.number] = others
        if one_lane:
            strand.elected |= 1 << event.number
            return
        strand.lanes_touched |= 1 << event.number
        if region.exclusive:
            strand.exclusive[region] |= 1 << event.number

    def _in_pipe(self, strand: Strand, event: AccessEvent, instruction: ins.Instruction) -> None:
        """Pairs that the pipe keeps in order, and who rides on whose completion."""
        access, pipes = event.access, strand.pipes
        finals = self.graph.finals[event.number]
        earlier = self._earlier(strand, event.where.agent) & ~self._in_same_step(strand, event)
        for bits, rule in pipes.sources(instruction, access.operand, access.region):
            bits &= earlier
            if rule == "pipelined":  # pairs that share an access compose (operand by operand)
                for number in members(bits):
                    if self.graph.accesses[number].guard <= event.guard:  # else it may not happen
                        bits |= strand.piped.get(number, 0)
                strand.piped[event.number] = bits
            finals.append(Injection(bits, State(), rule))
            if rule == "pipelined-ld-st":
                pending = strand.pending[Pool.TCGEN05_LD] | strand.pending[Pool.TCGEN05_ST]
                riding = self._when(bits & pending, self._implied(event.guard))
                strand.riders[event.number] = riding
        if isinstance(instruction, ins.Tcgen05Mma) and access.operand == "A":
            apart = pipes.elsewhere(instruction, access.region) & earlier
            if apart:
                doubt = State(note=ADDRESS_NOTE)
                finals.append(Injection(apart, doubt, "pipelined-cp-overlap"))
        pipes.add(instruction, access.operand, access.role, access.region, 1 << event.number)

    def _in_same_step(self, strand: Strand, event: AccessEvent) -> int:
        """Accesses that other lanes make at the same position: nothing says which comes first."""
        agent = event.where.agent
        return sum(1 << e.number for e in strand.fresh if e.where.agent != agent)

    def _define(
        self, where: Where, step: Step, events: list[AccessEvent], registers: RegisterFile
    ) -> None:
        """A load defines its register; a store keeps what it stores."""
        instruction, guard = step.instruction, self._guard(step)
        if isinstance(instruction, (ins.Load, ins.Tcgen05Ld, ins.Atomic)) and instruction.writes:
            number = events[0].number if events else -1
            loads = 1 << number if events else 0
            for event in events:
                event.used = isinstance(instruction, ins.Atomic)
            value = Value("load", region=instruction.region, access=number)
            registers.define(instruction.register, guard, loads, loads, value)
        elif isinstance(instruction, (ins.Store, ins.Tcgen05St)) and events:
            if instruction.registers:
                self.graph.stored[events[0].number] = registers.read(instruction.registers, guard)
            elif isinstance(instruction, ins.Store) and instruction.value is not None:
                constant = registers.constant(instruction.value)
                self.graph.stored[events[0].number] = (constant,)

    def _commit_group(self, strand: Strand, agent: int, commit: ins.Instruction) -> None:
        pool = GROUP_POOLS[type(commit)]
        strand.groups[agent, pool].append(strand.open_group.pop((agent, pool), 0))

    def _bind(self, strand: Strand, node: int, where: Where, step: Step, traits: Traits) -> None:
        """BOUND rules: later accesses of these pools begin after this node."""
        guard, apart = self._guard(step), where.agent in strand.apart
        for rule in traits.bounds:
            bound = Bound(node, guard, rule, where.agent, strand.step_position, apart)
            if rule.name == "proxy-fence-in-order":
                strand.async_bounds.append(bound)
                continue
            for pool in BOUNDED_POOLS:
                if pool in rule.takes:
                    strand.bind(pool, bound)
