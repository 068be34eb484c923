"""Phase accounting: one run of the program, and whether it stands for every schedule.

The run lets every agent go as far as it can, warps in step, asynchronous operations completing as
soon as they are issued. It fixes which arrival lands in which phase (absolute numbers, PTX ISA
§9.7.15.16.6) and which phase each wait observes. `matching.py` then checks that no other schedule
can match differently.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from . import instructions as ins
from .program import ONE_CLUSTER, Agent, Barrier, Program, Step

MAX_PENDING = 2**20 - 1


class Where(NamedTuple):
    """A step of an agent: indices into the program."""

    agent: int
    step: int


@dataclass
class BarrierState:
    """An mbarrier: `completed` phases, arrivals still `pending`, transaction bytes `tx`."""

    count: int | None
    completed: int = 0
    pending: int = 0
    tx: int = 0
    born: int = 0
    """Phases of earlier lives: phase numbers go on counting, parity starts again."""

    def start(self, count: int, phases: int = 0) -> None:
        self.count, self.pending, self.tx = count, count, 0
        self.born = self.completed = max(self.completed, phases)


@dataclass(frozen=True)
class Misuse:
    """A broken contract of a barrier object: kind `count` or `lifetime`."""

    kind: str
    where: Where
    label: str
    reason: str


@dataclass
class Run:
    """What happened, in order, with the matching of arrivals, phases and waits.

    `phases[barrier][k]` lists the arrivals of phase k as (step, signal index or -1); `observed`
    maps a wait to the number of completed phases it saw; `generations` do the same for named,
    warp and cluster barriers, by key.
    """

    program: Program
    order: list[Where] = field(default_factory=list)
    phases: dict[Barrier, list[list[tuple[Where, int]]]] = field(default_factory=dict)
    observed: dict[Where, int] = field(default_factory=dict)
    born: dict[Where, int] = field(default_factory=dict)
    """For each wait, the number of phases that the barrier's earlier lives had."""
    completed: dict[Barrier, int] = field(default_factory=dict)
    counts: dict[Barrier, int] = field(default_factory=dict)
    """Expected arrivals of a phase, of the barriers that are live at the end."""
    generations: dict[tuple[object, ...], list[list[Where]]] = field(default_factory=dict)
    generation_of: dict[Where, tuple[tuple[object, ...], int]] = field(default_factory=dict)
    stuck: list[Where] = field(default_factory=list)
    misuses: list[Misuse] = field(default_factory=list)

    def step(self, where: Where) -> Step:
        return self.program.agents[where.agent].steps[where.step]

    def agent(self, where: Where) -> Agent:
        return self.program.agents[where.agent]


class Runner:
    """Executes a program once. `skip` decides data-dependent branches: guards that do not hold."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.run = Run(program)
        self.barriers: dict[Barrier, BarrierState] = {}
        for barrier in program.barriers:
            self.barriers[barrier] = state = BarrierState(None)
            if barrier.count is not None:
                state.start(barrier.count)
        self.objects = [(b, b.region) for b in program.barriers if b.region is not None]
        self.next = [0] * len(program.agents)
        self.inside: set[int] = set()  # agents that have arrived at an execution barrier
        self.bars: dict[tuple[object, ...], int] = defaultdict(int)
        self.released: set[Where] = set()
        self.unarmed: set[Where] = set()  # cluster waits without an arrive of their own

    def execute(self) -> Run:
        teams = self._teams()
        progress = True
        while progress:
            progress = False
            for team in teams:
                progress |= self._advance(team)
        for index, agent in enumerate(self.program.agents):
            if self.next[index] < len(agent.steps):
                self.run.stuck.append(Where(index, self.next[index]))
        self._stuck_misuses()
        self.run.counts = {b: s.count for b, s in self.barriers.items() if s.count is not None}
        self.run.completed = {b: s.completed for b, s in self.barriers.items()}
        return self.run

    def _stuck_misuses(self) -> None:
        """Waits that can never pass because something was left out before them."""
        for where in self.run.stuck:
            instruction = self.run.step(where).instruction
            if where in self.unarmed:
                reason = "a wait without an arrive of its own"
                self._misuse("count", where, "barrier.cluster", reason)
            if not isinstance(instruction, ins.MbarrierTryWait):
                continue
            label = instruction.barrier.label
            if self.barriers[instruction.barrier].count is None:
                self._misuse("lifetime", where, label, "a wait on an mbarrier that is not live")

    def _teams(self) -> list[list[int]]:
        """Agents by warp: a warp's threads take turns by position, so that they stay in step."""
        teams: dict[tuple[int, int], list[int]] = defaultdict(list)
        for index, agent in enumerate(self.program.agents):
            teams[agent.cta, agent.warp].append(index)
        return list(teams.values())

    def _advance(self, team: list[int]) -> bool:
        if len(team) == 1:
            return self._try(team[0])
        live = [a for a in team if self.next[a] < len(self.program.agents[a].steps)]
        moved = False
        for position in sorted({self._position(a) for a in live}):
            for index in live:
                if self._position(index) == position and self._try(index):
                    moved = True
            if moved:
                break
        return moved

    def _position(self, index: int) -> int:
        steps = self.program.agents[index].steps
        if self.next[index] >= len(steps):
            return -1
        step = steps[self.next[index]]
        return step.position if step.position >= 0 else self.next[index]

    def _try(self, index: int) -> bool:
        agent = self.program.agents[index]
        if self.next[index] >= len(agent.steps):
            return False
        where = Where(index, self.next[index])
        instruction = agent.steps[where.step].instruction
        if not self._passes(where, agent, instruction):
            return False
        self.run.order.append(where)
        self.next[index] += 1
        self._effect(where, agent, instruction)
        return True

    # --- what may pass -----------------------------------------------------------------------

    def _passes(self, where: Where, agent: Agent, instruction: ins.Instruction) -> bool:
        if isinstance(instruction, ins.MbarrierTryWait):
            state = self.barriers[instruction.barrier]
            if state.count is None:
                return False
            if (state.completed - state.born) % 2 == instruction.parity % 2:
                return False
            self.run.observed[where] = state.completed
            self.run.born[where] = state.born
            return True
        if isinstance(instruction, (ins.Bar, ins.BarWarpSync)):
            return self._rendezvous(where, agent, instruction)
        if isinstance(instruction, ins.ClusterWait):
            generation = self.bars["cluster-waits", where.agent]
            if generation >= self.bars["cluster-arrives", where.agent]:
                self.unarmed.add(where)
            key = self._cluster_key(agent)
            arrived = self.run.generations.get(key, [])
            if len(arrived) <= generation or self._missing(key, arrived[generation]):
                return False
            self.bars["cluster-waits", where.agent] += 1
            self.run.generation_of[where] = (key, generation)
        return True

    def _cluster_key(self, agent: Agent) -> tuple[object, ...]:
        return ("cluster", self.program.places.get(agent.cta, ONE_CLUSTER))

    def _missing(self, cluster: tuple[object, ...], arrived: list[Where]) -> bool:
        """Threads that neither arrived at this generation nor have exited (§9.7.15.3)."""
        here = {where.agent for where in arrived}
        return any(
            index not in here
            and self.next[index] < len(agent.steps)
            and self._cluster_key(agent) == cluster
            for index, agent in enumerate(self.program.agents)
        )

    def _rendezvous(self, where: Where, agent: Agent, bar: ins.Bar | ins.BarWarpSync) -> bool:
        """A named or warp barrier: arrive once, pass when the generation has all its threads."""
        key: tuple[object, ...]
        if isinstance(bar, ins.Bar):
            key, needed, waits = ("bar", agent.cta, bar.id), bar.threads, bar.waits
        else:
            key, waits = ("warp", agent.cta, agent.warp, bar.mask), True
            needed = self._lanes_in(agent, bar.mask)
        if where not in self.run.generation_of:
            generations = self.run.generations.setdefault(key, [[]])
            if isinstance(bar, ins.Bar) and not bar.rearms and len(generations) > 1:
                self.run.generation_of[where] = (key, 0)  # late: it passes at once
                return True
            generations[-1].append(where)
            self.run.generation_of[where] = (key, len(generations) - 1)
            self._agree(where, bar, generations[-1])
        generations = self.run.generations[key]
        if where in generations[-1]:
            lanes = sum(self.program.agents[w.agent].lanes for w in generations[-1])
            if isinstance(bar, ins.Bar) and bar.everyone:
                needed -= self._exited(agent.cta)
            if lanes >= needed:
                if lanes > needed:
                    self._misuse("count", where, f"bar {key[-1]}", "more threads than its count")
                self.released.update(generations[-1])
                generations.append([])
        return not waits or where in self.released

    def _exited(self, cta: int) -> int:
        """Threads of a CTA that have ended: a barrier of all threads does not wait for them."""
        return sum(
            agent.lanes
            for index, agent in enumerate(self.program.agents)
            if agent.cta == cta and self.next[index] >= len(agent.steps)
        )

    def _agree(self, where: Where, bar: ins.Bar | ins.BarWarpSync, others: list[Where]) -> None:
        """All participants name one count (§9.7.15.1); a warp's lanes come from one instruction."""
        if not isinstance(bar, ins.Bar):
            return
        first = self.run.step(others[0]).instruction
        if isinstance(first, ins.Bar) and first.threads != bar.threads:
            reason = f"its participants name different counts: {first.threads} and {bar.threads}"
            self._misuse("count", where, f"bar {bar.id}", reason)
        here, agent = self.run.step(where).source, self.run.agent(where)
        for other in others[:-1]:
            mate = self.run.agent(other)
            there = self.run.step(other).source
            if (mate.cta, mate.warp) == (agent.cta, agent.warp) and there.line != here.line:
                reason = "lanes of one warp come to it from different instructions"
                self._misuse("divergence", where, f"bar {bar.id}", reason)
                return

    def _lanes_in(self, agent: Agent, mask: int) -> int:
        """How many of the program's threads in this warp the mask names."""
        mates = (a for a in self.program.agents if (a.cta, a.warp) == (agent.cta, agent.warp))
        return sum(mate.lanes for mate in mates if mate.mask & mask)

    # --- what it does ------------------------------------------------------------------------

    def _effect(self, where: Where, agent: Agent, instruction: ins.Instruction) -> None:
        if isinstance(instruction, ins.MbarrierInit):
            state = self.barriers[instruction.barrier]
            if state.count is not None:
                self._misuse(
                    "lifetime", where, instruction.barrier.label, "init of a live mbarrier"
                )
            state.start(instruction.count, len(self.run.phases.get(instruction.barrier, ())))
            self._spare_objects(where, instruction)
        elif isinstance(instruction, ins.MbarrierInval):
            if self.barriers[instruction.barrier].count is None:
                label = instruction.barrier.label
                self._misuse("lifetime", where, label, "inval of an mbarrier that is not live")
            self.barriers[instruction.barrier].count = None
        elif isinstance(instruction, ins.MbarrierTryWait):
            if instruction.barrier.cta != agent.cta:
                label = instruction.barrier.label
                self._misuse("lifetime", where, label, "wait on the mbarrier of another CTA")
        elif isinstance(instruction, ins.MbarrierArrive):
            self._arrive(
                where, -1, instruction.barrier, instruction.count * agent.lanes,
                instruction.expect, instruction.complete,
            )  # fmt: skip
        elif isinstance(instruction, ins.ClusterArrive):
            self._cluster_arrive(where)
        elif isinstance(instruction, ins.CpAsyncMbarrierArrive) and not instruction.noinc:
            self._arrive(where, -1, instruction.barrier, -instruction.lanes, 0, 0)
        elif self.objects and not isinstance(instruction, ins.MbarrierInstruction):
            self._spare_objects(where, instruction)
        for number, signal in enumerate(instruction.signals):
            self._arrive(where, number, signal.barrier, signal.count, 0, signal.bytes)

    def _spare_objects(self, where: Where, instruction: ins.Instruction) -> None:
        """Any other access to the bytes of a live mbarrier object is undefined (§9.7.15.16.3)."""
        mine = getattr(instruction, "barrier", None)
        for barrier, bytes_ in self.objects:
            if barrier == mine or self.barriers[barrier].count is None:
                continue
            if any(bytes_.overlaps(access.region) for access in instruction.accesses):
                self._misuse("lifetime", where, barrier.label, "access to a live mbarrier object")

    def _cluster_arrive(self, where: Where) -> None:
        generation = self.bars["cluster-arrives", where.agent]
        if generation > self.bars["cluster-waits", where.agent]:
            reason = "a second arrive before the wait"
            self._misuse("count", where, "barrier.cluster", reason)
        self.bars["cluster-arrives", where.agent] += 1
        key = self._cluster_key(self.run.agent(where))
        generations = self.run.generations.setdefault(key, [])
        while len(generations) <= generation:
            generations.append([])
        generations[generation].append(where)
        self.run.generation_of[where] = (key, generation)

    def _arrive(
        self, where: Where, signal: int, barrier: Barrier, count: int, expect: int, complete: int
    ) -> None:
        """Apply expect_tx, then the arrival, then complete_tx; the phase may complete (§.6)."""
        state = self.barriers[barrier]
        if state.count is None:
            self._misuse("lifetime", where, barrier.label, "used before mbarrier.init")
            return
        phases = self.run.phases.setdefault(barrier, [])
        while len(phases) <= state.completed:
            phases.append([])
        phases[state.completed].append((where, signal))
        state.tx += expect - complete
        left = state.pending - count
        if left < 0:
            self._misuse("count", where, barrier.label, "more arrivals in one phase than its count")
            left = 0
        if left > MAX_PENDING or abs(state.tx) > MAX_PENDING:
            self._misuse("count", where, barrier.label, "count out of range")
        state.pending = left
        if state.pending == 0 and state.tx == 0:
            state.completed += 1
            state.pending = state.count

    def _misuse(self, kind: str, where: Where, label: str, reason: str) -> None:
        self.run.misuses.append(Misuse(kind, where, label, reason))


Landing = tuple[Barrier, int, int, int]
"""A completion on its way: the mbarrier, arrivals, bytes expected, bytes completed."""


class Delayed(Runner):
    """The machine when completions of asynchronous operations are steps of their own."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.flying: dict[tuple[Where, int], Landing] = {}

    def _arrive(
        self, where: Where, signal: int, barrier: Barrier, count: int, expect: int, complete: int
    ) -> None:
        if signal >= 0:
            self.flying[where, signal] = (barrier, count, expect, complete)
        else:
            super()._arrive(where, signal, barrier, count, expect, complete)

    def land(self, arrival: tuple[Where, int]) -> bool:
        """The completion arrives, if its operation was issued."""
        if arrival not in self.flying:
            return False
        barrier, count, expect, complete = self.flying.pop(arrival)
        super()._arrive(*arrival, barrier, count, expect, complete)
        return True


def run_once(program: Program) -> Run:
    """The greedy run: deterministic, and the most advanced one when matching is static."""
    if "run" not in program.memo:
        program.memo["run"] = Runner(program).execute()
    run: Run = program.memo["run"]
    return run
