"""COVER rules while the graph is built: when pending accesses are known to be performed."""

from __future__ import annotations

from . import instructions as ins
from .builder import METAL_NOTE, Builder, Traits
from .composition import IMPLICIT_FENCE, NO_FENCES, Mode, Origin, State, Via
from .graph import members
from .instructions import Pool, Scope
from .program import Step
from .rules import Rule, any_access
from .run import Where
from .strand import Strand

WAITS_FOR_GROUPS = (ins.BulkWaitGroup, ins.CpAsyncWaitGroup, ins.WgmmaWaitGroup)


class Completion(Builder):
    """Completes pending accesses: at an instruction, or at an operation's completion signal."""

    def _complete_at(
        self, strand: Strand, node: int, where: Where, step: Step, traits: Traits
    ) -> None:
        """COVER rules at an instruction itself; those of its signals are in `_signals`."""
        for rule in traits.covers:
            for pool in Pool:
                if pool not in rule.takes:
                    continue
                self._cover(strand, node, where, step, rule, pool)

    def _cover(
        self, strand: Strand, node: int, where: Where, step: Step, rule: Rule, pool: Pool
    ) -> None:
        instruction = step.instruction
        mask = self._implied(self._guard(step))
        earlier = self._earlier(strand, where.agent)
        if pool is Pool.GENERIC:
            self._cover_generic(strand, node, step, rule, mask, earlier)
            return
        bits = strand.pending[pool] & earlier
        if isinstance(instruction, WAITS_FOR_GROUPS):
            bits &= self._retired(strand, where.agent, pool, instruction)
        elif rule.name == "register-use":
            bits &= self._registers(where).loads(instruction.reads, self._guard(step))
        bits &= ~strand.assumed[rule.name]
        bits = self._when(self._only(bits, rule), mask)
        if not bits:
            return
        completes = pool in (Pool.BULK, Pool.WGMMA)
        implicit = completes and "implicit-proxy-fence" in self.rules
        fenced = IMPLICIT_FENCE if implicit else NO_FENCES
        visible = Scope.THREAD if pool in (Pool.BULK, Pool.CP_ASYNC) else Scope.SYS
        riding = 0
        for number in members(bits):
            riding |= strand.riders.get(number, 0)
        state = State(fenced=fenced, via=Via.WAITED)
        self._inject(node, bits, state, visible, rule)
        if riding & ~bits:
            since = self.table["pipelined-ld-st"].since
            self._inject(node, riding & ~bits, state._replace(since=since), visible, rule)
        if not self._guard(step):
            if rule.assumption is None:
                strand.pending[pool] &= ~bits
            else:  # still pending for readings without the assumption
                strand.assumed[rule.name] |= bits

    def _cover_generic(
        self, strand: Strand, node: int, step: Step, rule: Rule, mask: int, earlier: int
    ) -> None:
        instruction = step.instruction
        scope = getattr(instruction, "scope", Scope.CTA)
        if isinstance(instruction, (ins.ClusterArrive, ins.FenceMbarrierInit)):
            scope = Scope.CLUSTER
        for fenced in list(strand.generic):
            bits = self._when(self._only(strand.generic[fenced] & earlier, rule), mask)
            named, unnamed = self._by_space(bits, instruction)
            state = State(fenced=fenced)
            if isinstance(instruction, ins.FenceMbarrierInit):
                state = state._replace(mode=Mode.ARMED, scope=scope)
            self._inject(node, named, state, scope, rule)
            if unnamed and "metal-flags" in self.rules:
                doubt = State(fenced=fenced, note=METAL_NOTE)
                reads = unnamed & self.graph.reads
                self._inject(node, reads, doubt, scope, self.table["metal-flags"])
            if not self._guard(step):
                strand.generic[fenced] &= ~named

    def _by_space(self, bits: int, instruction: ins.Instruction) -> tuple[int, int]:
        """Accesses to memory that a barrier's flags name, and the others (Metal)."""
        if not isinstance(instruction, ins.Bar) or len(instruction.spaces) > 1:
            return bits, 0
        named = 0
        for number in members(bits):
            if self.graph.accesses[number].access.region.space in instruction.spaces:
                named |= 1 << number
        return named, bits & ~named

    def _only(self, bits: int, rule: Rule) -> int:
        if not bits or rule.access is any_access:
            return bits  # the row takes any access
        kept = 0
        for number in members(bits):
            if rule.access(self.graph.accesses[number].access):
                kept |= 1 << number
        return kept

    def _retired(
        self,
        strand: Strand,
        agent: int,
        pool: Pool,
        wait: ins.BulkWaitGroup | ins.CpAsyncWaitGroup | ins.WgmmaWaitGroup,
    ) -> int:
        """All groups but the newest `pending`; None means uncommitted copies too (wait_all)."""
        if wait.pending is None:
            return strand.own[agent, pool]
        groups = strand.groups[agent, pool]
        bits = 0
        for group in groups[: max(0, len(groups) - wait.pending)]:
            bits |= group
        return bits

    # --- at a completion signal ---

    def _complete_signal(
        self, strand: Strand, node: int, step: Step, rule: Rule, signal: ins.Signal, where: Where
    ) -> None:
        bits = 0
        for pool in rule.takes:
            bits |= self._signalled(strand, step, pool, signal, where)
        bits &= self._implied(self._guard(step))
        implicit = (
            isinstance(step.instruction, ins.BulkCopy) and "implicit-proxy-fence" in self.rules
        )
        fenced = IMPLICIT_FENCE if implicit else NO_FENCES
        tmem = bits & self.graph.tmem
        remote = isinstance(step.instruction, ins.StAsync)  # needs an acquire of cluster scope
        state = State(origin=Origin.THREAD if remote else Origin.OWN, fenced=fenced)
        self._inject(node, tmem, state, Scope.SYS, rule)
        self._inject(node, bits & ~tmem, state, Scope.CLUSTER, rule)

    def _signalled(
        self, strand: Strand, step: Step, pool: Pool, signal: ins.Signal, where: Where
    ) -> int:
        """What an operation's completion covers: its own accesses, or all prior ones (commit)."""
        instruction = step.instruction
        if pool is Pool.BULK:
            own = [event for event in strand.fresh if event.where == where]
            if signal.accesses is not None:
                kept = {instruction.accesses[i] for i in signal.accesses}
                own = [event for event in own if event.access in kept]
            return sum(1 << event.number for event in own)
        if pool is Pool.TCGEN05_MMA:
            return strand.mma[where.agent, getattr(instruction, "cta_group", 1)]
        if pool is Pool.GENERIC:
            return strand.done_generic
        return strand.pending[pool] & strand.own[where.agent, pool]
