"""From a run to the event graph, by the rule table: step by step, in the order of the run."""

from __future__ import annotations

from . import instructions as ins
from .accesses import GROUP_POOLS, Accesses
from .builder import AFTER_PO, ISSUE, PIPED_ACROSS, PO, RIDE, Decide, Wanted
from .composition import ALL_CTAS, Edge, Label, Mode, Origin, State, passed
from .graph import AccessEvent, Graph, Injection, members
from .instructions import Pool, Scope
from .program import Space, Step
from .readings import Reading
from .rules import TABLE, RuleTable
from .run import Run, Where
from .strand import Strand


class GraphBuilder(Accesses):
    """Walks the run: what each instruction does to its thread, and to barriers."""

    def build(self) -> Graph:
        for where in self.run.order:
            if self._taken(self.run.step(where)):
                self._step(where)
        return self.graph

    # --- one step ----------------------------------------------------------------------------

    def _step(self, where: Where) -> None:
        step = self.run.step(where)
        strand = self._strand(where)
        registers = self._registers(where)
        if isinstance(step.instruction, ins.Compute):
            compute, guard = step.instruction, self._guard(step)
            registers.compute(compute.register, compute.function, compute.registers, guard)
            return
        traits = self._traits(step.instruction)
        if traits.idle:
            self._define(where, step, [], registers)
            return
        if isinstance(step.instruction, (ins.Bar, ins.BarWarpSync)):
            self._barrier(strand, where, step.instruction)
            return
        if isinstance(step.instruction, ins.ClusterWait):
            self._cluster_join(where)
        node = self._enter(strand, where)
        if traits.covers and not step.instruction.signals:
            self._complete_at(strand, node, where, step, traits)
        if traits.special:
            self._special(strand, node, where, step)
        if step.instruction.reads:
            for number in members(registers.perhaps(step.instruction.reads, self._guard(step))):
                self.graph.accesses[number].used = True
        begins: list[int] = []
        events: list[AccessEvent] = []
        if traits.begins:
            begins, events = self._accesses(strand, node, where, step, traits)
        self._define(where, step, events, registers)
        if traits.bounds:
            self._bind(strand, node, where, step, traits)
        if step.instruction.signals:
            self._signals(strand, node, where, step, begins)

    def _special(self, strand: Strand, node: int, where: Where, step: Step) -> None:
        instruction = step.instruction
        if isinstance(instruction, ins.MbarrierTryWait):
            self._wait(node, where, instruction)
        elif isinstance(instruction, ins.MbarrierArrive):
            self._arrive(node, where, instruction)
        elif isinstance(instruction, ins.ClusterWait):
            self._cluster_wait(node, where, instruction)
        elif type(instruction) in GROUP_POOLS:
            self._commit_group(strand, where.agent, instruction)
        else:
            self._fence(strand, node, where, step)

    # --- fences ------------------------------------------------------------------------------

    def _fence(self, strand: Strand, node: int, where: Where, step: Step) -> None:
        instruction = step.instruction
        if self._guard(step):
            self.graph.conditional = -1
        cta = self.run.agent(where).cta
        effects = self.graph.nodes[node].effects
        mask = self._implied(self._guard(step))
        if isinstance(instruction, ins.Fence):
            for wanted, edge in (
                (instruction.sem.acquires, Edge.FENCE_ACQUIRE),
                (instruction.sem.releases, Edge.FENCE_RELEASE),
            ):
                if wanted:
                    label = Label(edge, "release", instruction.sem, instruction.scope, cta)
                    effects.append((label, mask))
        elif isinstance(instruction, ins.FenceMbarrierInit):
            label = Label(Edge.FENCE_RELEASE, "fence.mbarrier_init", scope=Scope.CLUSTER, cta=cta)
            effects.append((label, mask & self._mbarrier_inits(strand)))
        elif isinstance(instruction, ins.Tcgen05Fence):
            if instruction.after:
                effects.append((Label(Edge.AFTER_SYNC, "after_thread_sync", cta=cta), mask))
            else:
                effects.append((Label(Edge.BEFORE_SYNC, "before_thread_sync", cta=cta), mask))
                self._pipeline_across(strand, node, mask & self._earlier(strand, where.agent))
        elif isinstance(instruction, (ins.FenceProxyAsync, ins.FenceProxy)):
            self._proxy_fence(strand, node, where, instruction, mask)

    def _mbarrier_inits(self, strand: Strand) -> int:
        bits = 0
        for event in self.graph.accesses:
            is_init = isinstance(self.graph.step(event.where).instruction, ins.MbarrierInit)
            if event.strand == strand.number and is_init:
                bits |= 1 << event.number
        return bits

    def _pipeline_across(self, strand: Strand, node: int, mask: int) -> None:
        """Uncompleted work behind a before-fence is pipelined in other threads: of any warp up to
        ISA 9.3, of the same warp since."""
        rule = next((r for r in PIPED_ACROSS if r in self.rules), None)
        if rule is None:
            return
        bits = strand.pending[Pool.TCGEN05_MMA] & mask & self.graph.tmem
        state = State(Mode.ARMED, scope=Scope.SYS, piped=True)
        if bits:
            self.graph.nodes[node].injections.append(Injection(bits, state, rule))

    def _proxy_fence(
        self,
        strand: Strand,
        node: int,
        where: Where,
        fence: ins.FenceProxyAsync | ins.FenceProxy,
        mask: int,
    ) -> None:
        cta, proxy, rule = self.run.agent(where).cta, fence.crosses, "proxy-fence"
        if proxy is None:
            cta, rule = ALL_CTAS, "alias-fence"
        narrow = fence.space if isinstance(fence, ins.FenceProxyAsync) else None
        space = self._in_space(narrow) & mask
        label = Label(Edge.PROXY_FENCE, rule, cta=cta, proxy=proxy)
        self.graph.nodes[node].effects.append((label, space))
        if rule not in self.rules or self._guard(self.run.step(where)):
            return
        own = space & self._earlier(strand, where.agent)
        for fenced in list(strand.generic):
            bits, after = strand.generic[fenced] & own, passed(fenced, (proxy, cta))
            if bits and after != fenced:
                strand.generic[fenced] &= ~bits
                strand.generic[after] |= bits

    def _in_space(self, space: Space | None) -> int:
        if space is None:
            return -1
        bits = 0
        for event in self.graph.accesses:
            if event.access.region.space is space:
                bits |= 1 << event.number
        return bits

    # --- barriers ----------------------------------------------------------------------------

    def _arrive(self, node: int, where: Where, arrive: ins.MbarrierArrive) -> None:
        agent = self.run.agent(where)
        edge = Edge.ARRIVE if arrive.count else Edge.ISSUE
        label = Label(edge, "mbarrier", arrive.sem, arrive.scope, agent.cta)
        self._land((where, -1), node, label)

    def _land(self, arrival: tuple[Where, int], node: int, label: Label) -> None:
        """An arrival joins its phase; the last one makes the phase's node."""
        if arrival not in self.phase_of:
            return
        key = self.phase_of[arrival]
        barrier, phase = key
        self.waiting[key].append((node, label))
        if phase < self.run.completed[barrier] and len(self.waiting[key]) == len(
            self.run.phases[barrier][phase]
        ):
            made = self._node("phase", arrival[0], self.waiting[key])
            self.graph.nodes[made].barrier, self.graph.nodes[made].phase = barrier, phase
            self.graph.phase_node[key] = made

    def _wait(self, node: int, where: Where, wait: ins.MbarrierTryWait) -> None:
        phase = self.run.observed[where] - 1
        if phase < self.run.born[where]:
            return  # a fresh barrier: nothing was released
        agent = self.run.agent(where)
        label = Label(Edge.WAIT, "mbarrier", wait.sem, wait.scope, agent.cta)
        if "mbarrier" not in self.rules:
            label = Label(Edge.ISSUE)
        self.graph.nodes[node].preds.append((self.graph.phase_node[wait.barrier, phase], label))

    def _barrier(self, strand: Strand, where: Where, bar: ins.Bar | ins.BarWarpSync) -> None:
        key, generation = self.run.generation_of[where]
        members_here = self.run.generations[key][generation]
        if isinstance(bar, ins.Bar) and not bar.waits:
            self._enter_barrier(where)
            return
        join = self.graph.joins.get((key, generation))
        if join is None:
            for other in members_here:
                self._enter_barrier(other)
            edge = Label(Edge.BAR_IN, "bar-sync", cta=self.run.agent(where).cta)
            preds = [(self.entered[other], edge) for other in members_here]
            join = self.graph.joins[key, generation] = self._node("phase", where, preds)
        self._enter_barrier(where)  # a late thread: it passes at once, and nobody waits for it
        label = Label(Edge.BAR_OUT, "bar-sync", cta=self.run.agent(where).cta)
        if "bar-sync" not in self.rules:
            label = ISSUE
        node = self._node("pass", where, [(join, label), (self.entered[where], PO)])
        self._leave(strand, where, node)
        step = self.run.step(where)
        self._bind(strand, node, where, step, self._traits(step.instruction))

    def _enter_barrier(self, where: Where) -> None:
        if where in self.entered:
            return
        strand = self._strand(where)
        node = self.entered[where] = self._enter(strand, where)
        step = self.run.step(where)
        self._complete_at(strand, node, where, step, self._traits(step.instruction))

    def _cluster_join(self, where: Where) -> int:
        """The node where all have arrived; made before the first wait that passes it."""
        key, generation = self.run.generation_of[where]
        join = self.graph.joins.get((key, generation))
        if join is None:
            preds = []
            for other in self.run.generations[key][generation]:
                arrive = self.run.step(other).instruction
                sem = arrive.sem if isinstance(arrive, ins.ClusterArrive) else ins.Sem.RELAXED
                cta = self.run.agent(other).cta
                edge = Label(Edge.CLUSTER_IN, "cluster-barrier", sem, Scope.CLUSTER, cta)
                preds.append((self.graph.issue_of[other], edge))
            join = self.graph.joins[key, generation] = self._node("phase", where, preds)
        return join

    def _cluster_wait(self, node: int, where: Where, wait: ins.ClusterWait) -> None:
        cta = self.run.agent(where).cta
        label = Label(Edge.CLUSTER_OUT, "cluster-barrier", wait.sem, Scope.CLUSTER, cta)
        if "cluster-barrier" not in self.rules:
            label = ISSUE
        self.graph.nodes[node].preds.append((self._cluster_join(where), label))

    # --- completion signals ------------------------------------------------------------------

    def _signals(
        self, strand: Strand, issue: int, where: Where, step: Step, begins: list[int]
    ) -> None:
        instruction = step.instruction
        if isinstance(instruction, ins.CpAsyncMbarrierArrive) and not instruction.noinc:
            self._land((where, -1), issue, ISSUE)
        for number, signal in enumerate(instruction.signals):
            preds = [(issue, ISSUE)]
            if isinstance(instruction, ins.Tcgen05Commit):
                riding = begins or strand.last_mma.get(where.agent, [])
                preds += [(begin, RIDE) for begin in riding]
            else:
                preds += [(begin, ISSUE) for begin in begins]
            objects = self._objects(strand, issue, where, step, signal)
            node = self.graph.complete_of[where, number] = self._node("complete", where, preds)
            for rule in self._traits(instruction).covers:
                if rule.name != "register-use":
                    self._complete_signal(strand, node, step, rule, signal, where)
            if "async-arrive" in self.rules:
                done = Injection(objects, State(origin=Origin.OWN), "async-arrive")
                self.graph.nodes[node].injections.append(done)
            label = Label(Edge.SIGNAL, "async-arrive", cta=self.run.agent(where).cta)
            self._land((where, number), node, label)

    def _objects(
        self, strand: Strand, issue: int, where: Where, step: Step, signal: ins.Signal
    ) -> int:
        """The arrival's use of the barrier object: after the issue, done when it has arrived."""
        bits = 0
        for access in signal.objects:
            if self.wanted(access.region):
                preds = [(issue, AFTER_PO)] if self.program_order else []
                begin = self._node("begin", where, preds)
                event = self._event(strand, begin, issue, where, step, access)
                if self.program_order:
                    earlier = strand.done_generic & self._earlier(strand, where.agent)
                    self.graph.finals[event.number].append(Injection(earlier, State(), "po"))
                bits |= 1 << event.number
        return bits


def build_graph(
    run: Run,
    reading: Reading,
    table: RuleTable = TABLE,
    wanted: Wanted = lambda region: True,
    decide: Decide | None = None,
) -> Graph:
    """The event graph of `run`, with events for accesses whose region is `wanted`.

    Of the reading, the ISA version and `lanes-run-together` shape the graph; edges of the other
    assumptions are all there, and `causality.py` takes those that its reading grants.

    `decide` fixes the data-dependent branches; without it steps keep their guards.
    """
    return GraphBuilder(run, reading, table, wanted, decide).build()
