"""From a run to the event graph, by the rule table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from . import instructions as ins
from .composition import ALL_CTAS, Edge, Label, Mode, Origin, State, Via
from .graph import AccessEvent, Graph, Guard, Injection, Node, Value, members
from .instructions import Access, Pool, Proxy, Role, Scope, Sem
from .pipes import PipeTracker
from .program import Barrier, Choice, Region, Space, Step
from .readings import ASSUMPTIONS, LANES_TOGETHER, Reading
from .registers import RegisterFile
from .rules import TABLE, Kind, Rule, RuleTable, any_access
from .run import Run, Where
from .strand import Strand

SHARED = frozenset(ASSUMPTIONS) - {LANES_TOGETHER}
ADDRESS_NOTE = "cp and mma overlap but do not start at the same address"
METAL_NOTE = "the barrier's flags do not name device memory"
PO = Label(Edge.PO)
LOCKSTEP = Label(Edge.PO, "lanes-run-together")
ISSUE = Label(Edge.ISSUE)
RIDE = Label(Edge.RIDE, "in-flight")
RIDE_COMMIT = Label(Edge.RIDE, "in-flight", Sem.RELEASE)
AFTER_PO = Label(Edge.BEGIN, "po")
AFTER_ISS = Label(Edge.BEGIN, "iss")
PASS_ALL_ON = {"acquire-tcgen05", "after_thread_sync"}
PIPED_ACROSS = ("pipelined-in-warp", "pipelined-across")
TCGEN05_POOLS = (Pool.TCGEN05_LD, Pool.TCGEN05_ST, Pool.TCGEN05_MMA)

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
    ins.Fence, ins.FenceMbarrierInit, ins.FenceProxyAsync, ins.Tcgen05Fence,
    ins.MbarrierTryWait, ins.MbarrierArrive, ins.ClusterWait,
    ins.BulkCommitGroup, ins.CpAsyncCommitGroup,
)  # fmt: skip


class GraphBuilder:
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

    def build(self) -> Graph:
        for where in self.run.order:
            if self._taken(self.run.step(where)):
                self._step(where)
        return self.graph

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
        merged = self.lockstep and self.graph.warp_mates[agent.cta, agent.warp] > 1
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
                strand.generic[frozenset()] |= bit
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
            self._bind(strand, node, step, traits)
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
        elif isinstance(instruction, (ins.BulkCommitGroup, ins.CpAsyncCommitGroup)):
            self._commit_group(strand, where.agent, instruction)
        else:
            self._fence(strand, node, where, step)

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

    # --- completion --------------------------------------------------------------------------

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
        if isinstance(instruction, (ins.BulkWaitGroup, ins.CpAsyncWaitGroup)):
            bits &= self._retired(strand, where.agent, pool, instruction)
        elif rule.name == "register-use":
            bits &= self._registers(where).loads(instruction.reads, self._guard(step))
        bits &= ~strand.assumed[rule.name]
        bits = self._when(self._only(bits, rule), mask)
        if not bits:
            return
        implicit = pool is Pool.BULK and "implicit-proxy-fence" in self.rules
        fenced = frozenset((ALL_CTAS,)) if implicit else frozenset[int]()
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

    def _when(self, bits: int, mask: int) -> int:
        """Of `bits`, those that imply the guard of the step, whose accesses `mask` is."""
        self.graph.conditional |= bits & ~mask
        return bits & mask

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

    def _inject(self, node: int, bits: int, state: State, visible: Scope, rule: Rule) -> None:
        reads, writes = bits & self.graph.reads, bits & ~self.graph.reads
        injections = self.graph.nodes[node].injections
        if reads:
            injections.append(Injection(reads, state._replace(visible=Scope.SYS), rule.name))
        if writes:
            injections.append(Injection(writes, state._replace(visible=visible), rule.name))

    def _retired(
        self,
        strand: Strand,
        agent: int,
        pool: Pool,
        wait: ins.BulkWaitGroup | ins.CpAsyncWaitGroup,
    ) -> int:
        """All groups but the newest `pending`; None means uncommitted copies too (wait_all)."""
        if wait.pending is None:
            return strand.own[agent, pool]
        groups = strand.groups[agent, pool]
        bits = 0
        for group in groups[: max(0, len(groups) - wait.pending)]:
            bits |= group
        return bits

    # --- accesses ----------------------------------------------------------------------------

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
        elif pool not in TCGEN05_POOLS:
            preds = [(issue, AFTER_PO)] if self.program_order and pool is Pool.GENERIC else []
        else:
            preds = self._last_bounds(strand, issue, step, proxy)
        return self._node("begin", where, preds)

    def _last_bounds(
        self, strand: Strand, issue: int, step: Step, proxy: Proxy
    ) -> list[tuple[int, Label]]:
        """The last bound of each kind before a tcgen05 access. What an earlier bound knows, a
        later one knows too, so none is needed before one that passes all of it on."""
        bounds = list(strand.bounds[step.instruction.pool])
        if proxy is Proxy.ASYNC:
            bounds = sorted(bounds + strand.async_bounds, key=lambda bound: bound[0])
        if step.instruction.reads and self.issue_in_order:
            bounds.append((issue, frozenset(), self.table["issue"]))
        guard = self._guard(step)
        preds: dict[str, tuple[int, Label]] = {}
        for node, bound_guard, rule in reversed(bounds):
            if not bound_guard <= guard:
                if not preds.keys() & PASS_ALL_ON:
                    self.graph.conditional = -1
            elif rule.name not in preds:
                preds[rule.name] = (node, Label(Edge.BEGIN, rule.name))
                if rule.name == "after_thread_sync":
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
        elif event.pool is Pool.CP_ASYNC or (event.pool is Pool.BULK and not instruction.signals):
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
            self._other_lanes(strand, event)
        elif event.pool in (Pool.BULK, Pool.CP_ASYNC):
            rule = "iss" if event.pool in self.in_order else ""
            if event.pool is Pool.CP_ASYNC:
                self._other_lanes(strand, event)
        elif event.access.proxy is Proxy.ASYNC and "proxy-fence-in-order" in self.rules:
            rule = "proxy-fence-in-order"
        if rule:
            for fenced, bits in strand.generic.items():
                if fenced or rule == "iss":
                    finals.append(Injection(bits & earlier, State(fenced=fenced), rule))

    def _other_lanes(self, strand: Strand, event: AccessEvent) -> None:
        """Lanes of one agent run apart: what is not each lane's own part is another lane's too."""
        if self.run.agent(event.where).lanes == 1:
            return
        region = event.access.region
        same = strand.exclusive[region] if region.exclusive else 0
        others = strand.lanes_touched & ~same
        if others:
            self.graph.other_lanes[event.number] = others
        strand.lanes_touched |= 1 << event.number
        if region.exclusive:
            strand.exclusive[region] |= 1 << event.number

    def _in_pipe(self, strand: Strand, event: AccessEvent, instruction: ins.Instruction) -> None:
        """Pairs that the pipe keeps in order, and who rides on whose completion."""
        access, pipes = event.access, strand.pipes
        finals = self.graph.finals[event.number]
        for bits, rule in pipes.sources(instruction, access.operand, access.region):
            finals.append(Injection(bits, State(), rule))
            if rule == "pipelined-ld-st":
                pending = strand.pending[Pool.TCGEN05_LD] | strand.pending[Pool.TCGEN05_ST]
                riding = self._when(bits & pending, self._implied(event.guard))
                strand.riders[event.number] = riding
        if isinstance(instruction, ins.Tcgen05Mma) and access.operand == "A":
            apart = pipes.elsewhere(instruction, access.region)
            if apart:
                doubt = State(note=ADDRESS_NOTE)
                finals.append(Injection(apart, doubt, "pipelined-cp-overlap"))
        pipes.add(instruction, access.operand, access.role, access.region, 1 << event.number)

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

    def _commit_group(
        self, strand: Strand, agent: int, commit: ins.BulkCommitGroup | ins.CpAsyncCommitGroup
    ) -> None:
        pool = Pool.BULK if isinstance(commit, ins.BulkCommitGroup) else Pool.CP_ASYNC
        strand.groups[agent, pool].append(strand.open_group.pop((agent, pool), 0))

    def _bind(self, strand: Strand, node: int, step: Step, traits: Traits) -> None:
        """BOUND rules: later accesses of these pools begin after this node."""
        guard = self._guard(step)
        for rule in traits.bounds:
            if rule.name == "proxy-fence-in-order":
                strand.async_bounds.append((node, guard, rule))
                continue
            for pool in TCGEN05_POOLS:
                if pool in rule.takes:
                    strand.bind(pool, node, guard, rule)

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
            inits = mask & self._mbarrier_inits(strand)
            effects.append((label, inits))
        elif isinstance(instruction, ins.Tcgen05Fence):
            if instruction.after:
                effects.append((Label(Edge.AFTER_SYNC, "after_thread_sync", cta=cta), mask))
            else:
                effects.append((Label(Edge.BEFORE_SYNC, "before_thread_sync", cta=cta), mask))
                self._pipeline_across(strand, node, mask)
        elif isinstance(instruction, ins.FenceProxyAsync):
            self._proxy_fence(strand, node, instruction, cta, mask, bool(self._guard(step)))

    def _mbarrier_inits(self, strand: Strand) -> int:
        bits = 0
        for event in self.graph.accesses:
            if event.strand == strand.number and event.access.role is Role.ALLOC:
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
        self, strand: Strand, node: int, fence: ins.FenceProxyAsync, cta: int, mask: int,
        guarded: bool,
    ) -> None:  # fmt: skip
        space = self._in_space(fence.space) & mask
        self.graph.nodes[node].effects.append(
            (Label(Edge.PROXY_FENCE, "proxy-fence", cta=cta), space)
        )
        if "proxy-fence" not in self.rules:
            return
        for fenced in list(strand.generic):
            bits = strand.generic[fenced] & space
            if bits and cta not in fenced and not guarded:
                strand.generic[fenced] &= ~bits
                strand.generic[fenced | {cta}] |= bits

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
        label = Label(Edge.BAR_OUT, "bar-sync", cta=self.run.agent(where).cta)
        if "bar-sync" not in self.rules:
            label = ISSUE
        node = self._node("pass", where, [(join, label), (self.entered[where], PO)])
        self._leave(strand, where, node)
        step = self.run.step(where)
        self._bind(strand, node, step, self._traits(step.instruction))

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
            riding = begins or strand.last_mma.get(where.agent, [])
            ride = RIDE_COMMIT if isinstance(instruction, ins.Tcgen05Commit) else RIDE
            preds = [(issue, ISSUE)] + [(begin, ride) for begin in riding]
            node = self.graph.complete_of[where, number] = self._node("complete", where, preds)
            for rule in self._traits(instruction).covers:
                if rule.name != "register-use":
                    self._complete_signal(strand, node, step, rule, signal, where)
            label = Label(Edge.SIGNAL, "async-arrive", cta=self.run.agent(where).cta)
            self._land((where, number), node, label)

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
        fenced = frozenset((ALL_CTAS,)) if implicit else frozenset[int]()
        tmem = bits & self.graph.tmem
        state = State(origin=Origin.OWN, fenced=fenced)
        self._inject(node, tmem, state, Scope.SYS, rule)
        self._inject(node, bits & ~tmem, state, Scope.CLUSTER, rule)

    def _signalled(
        self, strand: Strand, step: Step, pool: Pool, signal: ins.Signal, where: Where
    ) -> int:
        """What an operation's completion covers: its own accesses, or all prior ones (commit)."""
        instruction = step.instruction
        if isinstance(instruction, ins.BulkCopy) and pool is Pool.BULK:
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
