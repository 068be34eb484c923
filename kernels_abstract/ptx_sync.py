"""Who waits for what during a run; handlers of barriers and fences (PTX ISA §9.7.15.1-4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..model.instructions import (
    Bar,
    ClusterArrive,
    ClusterWait,
    Fence,
    FenceMbarrierInit,
    FenceProxyAsync,
    Instruction,
    Scope,
    Sem,
)
from ..model.program import Barrier, Space, Step
from .ptx_access import scope_of, sem_of, space_of
from .ptx_opcodes import control, effect, outside
from .ptx_syntax import PtxInstruction

if TYPE_CHECKING:
    from .ptx_run import Machine


# --- state ---------------------------------------------------------------------------------------


@dataclass
class NamedBarrier:
    """Arrivals on one barrier of one CTA since it last opened."""

    expected: int | None = None
    """None: all threads of the CTA that have not exited."""

    steps: list[Step] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)


@dataclass
class Mbarrier:
    """One mbarrier object: pending arrivals and bytes of the current phase."""

    barrier: Barrier
    count: int = 0
    pending: int = 0
    bytes: int = 0
    phase: int = 0
    waiting: list[tuple[int, int]] = field(default_factory=list)
    """Lane and parity."""


class Synchronisation:
    """Who waits for what; opens barriers and wakes their threads."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.named: dict[tuple[int, int], NamedBarrier] = {}
        self.mbarriers: dict[tuple[str, int, int], Mbarrier] = {}
        self.cluster_phase = 0
        self.cluster_arrivals = 0
        self.cluster_phase_of: dict[int, int] = {}
        """The phase in which each thread last arrived at the cluster barrier."""

        self.cluster_waiting: list[int] = []
        self.waits_at: dict[int, PtxInstruction] = {}

    def block(self, lane: int) -> None:
        self.machine.runnable[lane] = False
        self.waits_at[lane] = self.machine.here

    def wake(self, lanes: list[int]) -> None:
        self.machine.runnable[lanes] = True
        for lane in lanes:
            self.waits_at.pop(lane, None)

    def arrive(self, cta: int, number: int, lane: int, step: Step, expected: int | None) -> None:
        """bar.sync, bar.arrive: count the thread, and let it wait if the instruction waits."""
        barrier = self.named.setdefault((cta, number), NamedBarrier())
        barrier.expected = expected
        barrier.steps.append(step)
        assert isinstance(step.instruction, Bar)
        if step.instruction.waits:
            barrier.waiting.append(lane)
            self.block(lane)

    def open_complete(self) -> None:
        """Open every barrier whose threads have all arrived."""
        for (cta, _), barrier in self.named.items():
            expected = barrier.expected
            if expected is None:
                expected = self._living(cta)
            if barrier.steps and len(barrier.steps) >= expected:
                for step in barrier.steps:
                    assert isinstance(step.instruction, Bar)
                    if step.instruction.threads != expected:
                        step.instruction = replace(step.instruction, threads=expected)
                self.wake(barrier.waiting)
                barrier.steps, barrier.waiting = [], []
        if self.cluster_arrivals and self.cluster_arrivals >= int(self.machine.alive.sum()):
            self.cluster_phase += 1
            self.cluster_arrivals = 0
            self.wake(self.cluster_waiting)
            self.cluster_waiting = []

    def _living(self, cta: int) -> int:
        return int((self.machine.alive & (self.machine.cta_of == cta)).sum())

    def complete_phase(self, mbarrier: Mbarrier) -> None:
        """End the phase if nothing is pending; wake those who waited for it (§9.7.15.16.5)."""
        if mbarrier.pending or mbarrier.bytes or not mbarrier.count:
            return
        mbarrier.phase += 1
        mbarrier.pending = mbarrier.count
        passing = [lane for lane, parity in mbarrier.waiting if passes(mbarrier, parity)]
        mbarrier.waiting = [w for w in mbarrier.waiting if w[0] not in passing]
        self.wake(passing)

    def report_stuck(self) -> None:
        """Threads that wait for ever: their last step is the wait, so the model will see it."""
        lines = sorted({ins.line for ins in self.waits_at.values()})
        if lines:
            places = ", ".join(str(line) for line in lines)
            waits = f"{len(self.waits_at)} threads wait for ever (line {places})"
            self.machine.notes[f"{waits}; what they would do next is cut"] = None


def passes(mbarrier: Mbarrier, parity: int) -> bool:
    """try_wait.parity: the number of completed phases has the other parity."""
    return mbarrier.phase & 1 != parity


# --- execution barriers --------------------------------------------------------------------------


@control("bar.sync", "bar.arrive", "barrier.sync", "barrier.arrive", "bar.cta.sync",
         "bar.cta.arrive", "barrier.cta.sync", "barrier.cta.arrive")  # fmt: skip
def named_barrier(machine: Machine, ins: PtxInstruction) -> None:
    """bar.sync a{, b}; bar.arrive a, b (§9.7.15.1). Without b: all threads of the CTA."""
    number = machine.read(ins.operands[0], "b32")
    machine.need(number, "the barrier number")
    count = machine.read(ins.operands[1], "b32") if len(ins.operands) > 1 else None
    if count is not None:
        machine.need(count, "the thread count")
    waits = ins.has("sync")
    for lane in machine.active_lanes():
        expected = None if count is None else int(count.bits[lane])
        threads = machine.launch.threads if expected is None else expected
        step = machine.record.emit(
            lane, Bar(int(number.bits[lane]), threads, waits, everyone=count is None)
        )
        cta = int(machine.cta_of[lane])
        machine.sync.arrive(cta, int(number.bits[lane]), lane, step, expected)
    machine.sync.open_complete()


@control("barrier.cluster.arrive", "barrier.cluster.wait")
def barrier_cluster(machine: Machine, ins: PtxInstruction) -> None:
    """barrier.cluster.arrive is a release, .wait an acquire, by default (§9.7.15.3)."""
    sync = machine.sync
    for lane in machine.active_lanes():
        if ins.has("arrive"):
            machine.record.emit(lane, ClusterArrive(sem_of(ins, Sem.RELEASE)))
            sync.cluster_phase_of[lane] = sync.cluster_phase
            sync.cluster_arrivals += 1
        else:
            machine.record.emit(lane, ClusterWait(sem_of(ins, Sem.ACQUIRE)))
            if sync.cluster_phase_of.get(lane, -1) == sync.cluster_phase:
                sync.cluster_waiting.append(lane)
                sync.block(lane)
    sync.open_complete()


# --- fences --------------------------------------------------------------------------------------


def emit_all(machine: Machine, instruction: Instruction) -> None:
    for lane in machine.active_lanes():
        machine.record.emit(lane, instruction)


@effect("fence")
def fence(machine: Machine, ins: PtxInstruction) -> None:
    if any(part.startswith(("sync_restrict", "proxy")) for part in ins.parts):
        raise outside(machine, ins)
    emit_all(machine, Fence(sem_of(ins, Sem.ACQ_REL), scope_of(ins, Scope.SYS)))


@effect("membar")
def membar(machine: Machine, ins: PtxInstruction) -> None:
    """membar.{cta,gl,sys} is fence.sc of that scope (§9.7.15.4)."""
    scope = Scope.GPU if ins.has("gl") else scope_of(ins, Scope.SYS)
    emit_all(machine, Fence(Sem.SC, scope))


@effect("fence.proxy.async")
def fence_proxy_async(machine: Machine, ins: PtxInstruction) -> None:
    spaces = {"global": Space.GLOBAL, "shared": Space.SHARED}
    emit_all(machine, FenceProxyAsync(spaces.get(space_of(ins))))


@effect("fence.mbarrier_init")
def fence_mbarrier_init(machine: Machine, ins: PtxInstruction) -> None:
    emit_all(machine, FenceMbarrierInit())
