"""Handlers of control flow and synchronisation, and the barriers' state during the run.

PTX ISA §9.7.12 (control flow), §9.7.15.1-4 (barriers, fences), §9.7.15.16 (mbarrier).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ..model.instructions import (
    Bar,
    BarWarpSync,
    ClusterArrive,
    ClusterWait,
    Fence,
    FenceMbarrierInit,
    FenceProxyAsync,
    Instruction,
    MbarrierArrive,
    MbarrierInit,
    MbarrierInval,
    MbarrierTryWait,
    Scope,
    Sem,
    Use,
)
from ..model.program import Barrier, InputError, Space, Step
from .ptx_access import scope_of, sem_of, space_of
from .ptx_memory import CTA_SHIFT
from .ptx_opcodes import control, data, effect
from .ptx_syntax import Immediate, Label, Operand, Pair, PtxInstruction, Symbol
from .ptx_values import Mask, Value

if TYPE_CHECKING:
    from .ptx_run import Machine

WARP = 32
SILENT_CALLS = frozenset(("vprintf", "printf", "__assertfail", "__assert_fail"))


# --- state ----------------------------------------------------------------------------------------------------


@dataclass
class _NamedBarrier:
    """Arrivals on one barrier of one CTA since it last opened."""

    expected: int | None = None
    """None: all threads of the CTA that have not exited."""

    steps: list[Step] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)


@dataclass
class _Mbarrier:
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
        self.named: dict[tuple[int, int], _NamedBarrier] = {}
        self.mbarriers: dict[tuple[str, int, int], _Mbarrier] = {}
        self.cluster_phase = 0
        self.cluster_arrivals = 0
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
        barrier = self.named.setdefault((cta, number), _NamedBarrier())
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

    def complete_phase(self, mbarrier: _Mbarrier) -> None:
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
            note = f"{len(self.waits_at)} threads wait for ever (line {places}); what follows is cut"
            self.machine.notes[note] = None


def passes(mbarrier: _Mbarrier, parity: int) -> bool:
    """try_wait.parity: the number of completed phases has the other parity."""
    return mbarrier.phase & 1 != parity


# --- control flow ---------------------------------------------------------------------------------------------


def target_of(machine: Machine, ins: PtxInstruction) -> int:
    label = ins.operands[0] if ins.operands else None
    if not isinstance(label, Label):
        raise InputError("a branch needs a label", machine.where(ins))
    return label.targets[0]


@control("bra")
def bra(machine: Machine, ins: PtxInstruction) -> None:
    machine.branch(ins, target_of(machine, ins))


@control("brx.idx")
def brx_idx(machine: Machine, ins: PtxInstruction) -> None:
    index, table = machine.read(ins.operands[0], "b32"), ins.operands[1]
    if not isinstance(table, Label):
        raise InputError("brx.idx needs a .branchtargets list", machine.where(ins))
    machine.require_known(index, machine.active, ins, "the branch index")
    machine.use(index, machine.active, "branch")
    chosen = index.bits[machine.active].astype(np.int64)
    if (chosen >= len(table.targets)).any():
        raise InputError("the branch index is beyond its .branchtargets", machine.where(ins))
    machine.pcs[machine.active] = np.array(table.targets)[chosen]


@control("ret", "exit")
def exit_(machine: Machine, ins: PtxInstruction) -> None:
    machine.alive = machine.alive & ~machine.active
    machine.runnable[machine.active] = False
    machine.sync.open_complete()


@control("trap")
def trap(machine: Machine, ins: PtxInstruction) -> None:
    machine.notes[f"line {ins.line}: trap is reached"] = None
    exit_(machine, ins)


@effect("call")
def call(machine: Machine, ins: PtxInstruction) -> None:
    """printf and assertions do not touch the kernel's memory; other calls are not followed."""
    names = [o.name for o in ins.operands if isinstance(o, Symbol)]
    if not names or names[0] not in SILENT_CALLS:
        called = names[0] if names else "a function pointer"
        raise InputError(f"call of {called} is outside the model", machine.where(ins))
    machine.notes[f"line {ins.line}: the call of {names[0]} is skipped"] = None


@data("nanosleep", "pmevent", "prefetch", "prefetchu", "setmaxnreg")
def no_effect(machine: Machine, ins: PtxInstruction) -> None:
    """Timing and register allocation only: nothing that memory order could notice."""


# --- warp-wide instructions -------------------------------------------------------------------------------------


def converge(machine: Machine, members: Operand, ins: PtxInstruction) -> None:
    """`.sync`: lanes named in the mask wait here for each other (§9.7.15.2).

    Narrows the active lanes to the warps that are complete; the others stay at this instruction.
    """
    mask = machine.read(members, "b32")
    machine.require_known(mask, machine.active, ins, "the member mask")
    here = machine.ballot(machine.active)
    living = machine.ballot(machine.alive)
    complete = (mask.bits & living & ~here) == 0
    early = machine.active & ~complete
    machine.pcs[early] = ins.index
    machine.parked |= early
    machine.active = machine.active & complete


@control("bar.warp.sync")
def bar_warp_sync(machine: Machine, ins: PtxInstruction) -> None:
    converge(machine, ins.operands[0], ins)
    counts = machine.ballot(machine.active)
    for lane in active_lanes(machine):
        machine.emit(lane, BarWarpSync(lanes=int(counts[lane]).bit_count()))


@control("shfl.sync")
def shfl(machine: Machine, ins: PtxInstruction) -> None:
    """shfl.sync (§9.7.9.6): each lane reads a register of another lane of its warp."""
    destination, value, offset, clamp = ins.operands[:4]
    converge(machine, ins.operands[4], ins)
    given = machine.read(value, "b32")
    by, control_word = machine.read(offset, "b32"), machine.read(clamp, "b32")
    for operand in (by, control_word):
        machine.require_known(operand, machine.active, ins, "the source lane")
    machine.use(given, machine.active, "shuffle")
    source, inside = _shuffle_source(machine, ins, by, control_word)
    nodes = None if given.node is None else given.node[source]
    unknown = None if given.unknown is None else given.unknown[source]
    moved = Value(given.bits[source], nodes, unknown)
    if isinstance(destination, Pair):
        machine.write(destination.first, moved)
        machine.write(destination.second, Value(inside.astype(np.uint64)))
    else:
        machine.write(destination, moved)


def _shuffle_source(
    machine: Machine, ins: PtxInstruction, by: Value, control_word: Value
) -> tuple[np.ndarray, Mask]:
    lane = machine.lanes % WARP
    step = by.bits.astype(np.int64) & 31
    clamp = control_word.bits.astype(np.int64) & 31
    segment = (control_word.bits.astype(np.int64) >> 8) & 31
    low, high = lane & segment, (lane & segment) | (clamp & ~segment)
    if ins.has("up"):
        target = lane - step
        inside = target >= high
    else:
        moves = {"down": lane + step, "bfly": lane ^ step, "idx": low | (step & ~segment)}
        target = next(moves[part] for part in ins.parts if part in moves)
        inside = target <= high
    chosen = np.where(inside, target, lane)
    return machine.lanes - lane + chosen, inside


@control("vote.sync")
def vote(machine: Machine, ins: PtxInstruction) -> None:
    """vote.sync (§9.7.13.10): known if all votes are known."""
    converge(machine, ins.operands[-1], ins)
    votes = machine.read(ins.operands[1], "pred")
    machine.use(votes, machine.active, "vote")
    here = machine.ballot(machine.active)
    yes = machine.ballot(machine.active & (votes.bits == 1))
    if ins.has("ballot"):
        bits = yes
    elif ins.has("all"):
        bits = (yes == here).astype(np.uint64)
    elif ins.has("any"):
        bits = (yes != 0).astype(np.uint64)
    else:
        bits = ((yes == here) | (yes == 0)).astype(np.uint64)
    machine.write(ins.operands[0], _joint(machine, ins, votes, bits))


def _joint(machine: Machine, ins: PtxInstruction, votes: Value, bits: np.ndarray) -> Value:
    """A result of the whole warp: unknown if the value of any active lane is."""
    if votes.node is None:
        return Value(bits)
    own = machine.provenance.combine(ins.opcode, [votes], machine.active)
    nodes = np.zeros(machine.count, np.int64)
    for warp in machine.warps.tolist():
        row = slice(warp * WARP, (warp + 1) * WARP)
        inputs = tuple(dict.fromkeys(own[row][machine.active[row]].tolist()))
        if any(votes.node[row][machine.active[row]]):
            nodes[row] = machine.provenance.operation(ins.opcode, inputs)
    unknown = machine.ballot(machine.active & votes.unknowns()) != 0
    return Value(bits, nodes, unknown)


@control("elect.sync")
def elect(machine: Machine, ins: PtxInstruction) -> None:
    """elect.sync elects one lane of the mask; here, as on hardware so far, the lowest."""
    destination = ins.operands[0]
    converge(machine, ins.operands[1], ins)
    here = machine.ballot(machine.active)
    lowest = here & (~here + np.uint64(1))
    lane = np.uint64(1) << (machine.lanes % WARP).astype(np.uint64)
    chosen = (lane == lowest).astype(np.uint64)
    if isinstance(destination, Pair):
        leader = np.log2(np.maximum(lowest, np.uint64(1)).astype(np.float64)).astype(np.uint64)
        machine.write(destination.first, Value(leader))
        machine.write(destination.second, Value(chosen))
    else:
        machine.write(destination, Value(chosen))


def active_lanes(machine: Machine) -> list[int]:
    lanes: list[int] = np.flatnonzero(machine.active).tolist()
    return lanes


# --- execution barriers -------------------------------------------------------------------------------------------


@control("bar.sync", "bar.arrive", "barrier.sync", "barrier.arrive", "bar.cta.sync",
         "bar.cta.arrive", "barrier.cta.sync", "barrier.cta.arrive")  # fmt: skip
def bar(machine: Machine, ins: PtxInstruction) -> None:
    """bar.sync a{, b}; bar.arrive a, b (§9.7.15.1). Without b: all threads of the CTA."""
    number = machine.read(ins.operands[0], "b32")
    machine.require_known(number, machine.active, ins, "the barrier number")
    count = machine.read(ins.operands[1], "b32") if len(ins.operands) > 1 else None
    if count is not None:
        machine.require_known(count, machine.active, ins, "the thread count")
    waits = ins.has("sync")
    for lane in active_lanes(machine):
        expected = None if count is None else int(count.bits[lane])
        threads = machine.launch.threads if expected is None else expected
        step = machine.emit(lane, Bar(int(number.bits[lane]), threads, waits))
        cta = int(machine.cta_of[lane])
        machine.sync.arrive(cta, int(number.bits[lane]), lane, step, expected)
    machine.sync.open_complete()


@control("barrier.cluster.arrive", "barrier.cluster.wait")
def barrier_cluster(machine: Machine, ins: PtxInstruction) -> None:
    """barrier.cluster.arrive is a release, .wait an acquire, by default (§9.7.15.3)."""
    sync = machine.sync
    for lane in active_lanes(machine):
        if ins.has("arrive"):
            machine.emit(lane, ClusterArrive(sem_of(ins, Sem.RELEASE)))
            sync.cluster_arrivals += 1
        else:
            machine.emit(lane, ClusterWait(sem_of(ins, Sem.ACQUIRE)))
            if sync.cluster_arrivals:
                sync.cluster_waiting.append(lane)
                sync.block(lane)
    sync.open_complete()


# --- fences ---------------------------------------------------------------------------------------------------------


def emit_all(machine: Machine, instruction: Instruction) -> None:
    for lane in active_lanes(machine):
        machine.emit(lane, instruction)


@effect("fence")
def fence(machine: Machine, ins: PtxInstruction) -> None:
    if any(part.startswith(("sync_restrict", "proxy")) for part in ins.parts):
        raise InputError(f"instruction outside the model: {ins.opcode}", machine.where(ins))
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


# --- mbarrier ---------------------------------------------------------------------------------------------------------


def mbarriers(machine: Machine, operand: Operand, ins: PtxInstruction) -> list[tuple[int, _Mbarrier]]:
    """The mbarrier object of each active lane."""
    found = []
    for lane, location in machine.locations(operand, space_of(ins)):
        if location.space != "shared":
            raise InputError("an mbarrier must be in shared memory", machine.where(ins))
        key = (location.array, location.cta, location.offset)
        if key not in machine.sync.mbarriers:
            region = machine.region(location, 8, 8)
            barrier = Barrier(region.array, region.index, region.cta, None, region)
            machine.sync.mbarriers[key] = _Mbarrier(barrier)
        found.append((lane, machine.sync.mbarriers[key]))
    return found


def number_of(machine: Machine, operand: Operand, ins: PtxInstruction) -> Callable[[int], int]:
    """A count or parity, which must be known, as a function of the lane."""
    value = machine.read(operand, "b32")
    machine.require_known(value, machine.active, ins, "the operand")
    return lambda lane: int(value.bits[lane])


@effect("mbarrier.init")
def mbarrier_init(machine: Machine, ins: PtxInstruction) -> None:
    count = number_of(machine, ins.operands[1], ins)
    for lane, mbarrier in mbarriers(machine, ins.operands[0], ins):
        mbarrier.count = mbarrier.pending = count(lane)
        mbarrier.phase = mbarrier.bytes = 0
        machine.emit(lane, MbarrierInit(mbarrier.barrier, count(lane)))


@effect("mbarrier.inval")
def mbarrier_inval(machine: Machine, ins: PtxInstruction) -> None:
    for lane, mbarrier in mbarriers(machine, ins.operands[0], ins):
        mbarrier.count = 0
        machine.emit(lane, MbarrierInval(mbarrier.barrier))


@effect("mbarrier.arrive", "mbarrier.arrive.expect_tx")
def mbarrier_arrive(machine: Machine, ins: PtxInstruction) -> None:
    """mbarrier.arrive{.expect_tx} state, [addr]{, count or bytes} (§9.7.15.16.13)."""
    if ins.has("noComplete", "noinc"):
        raise InputError(f"instruction outside the model: {ins.opcode}", machine.where(ins))
    state, address, *rest = _with_state(ins)
    given = number_of(machine, rest[0] if rest else Immediate(1), ins)
    sem, scope = sem_of(ins, Sem.RELEASE), scope_of(ins, Scope.CTA)
    tokens = machine.zeros.copy()
    for lane, mbarrier in mbarriers(machine, address, ins):
        tokens[lane] = mbarrier.phase
        expects = ins.has("expect_tx")
        count, bytes_ = (1, given(lane)) if expects else (given(lane), 0)
        machine.emit(
            lane, MbarrierArrive(mbarrier.barrier, count, expect=bytes_, sem=sem, scope=scope)
        )
        mbarrier.bytes += bytes_
        mbarrier.pending -= count
        machine.sync.complete_phase(mbarrier)
    if state is not None:
        machine.write(state, Value(tokens))


def _with_state(ins: PtxInstruction) -> tuple[Operand | None, ...]:
    """Remote arrives may leave out the state operand."""
    from .ptx_syntax import Address

    if isinstance(ins.operands[0], Address):
        return (None, *ins.operands)
    return ins.operands


@effect("mbarrier.expect_tx", "mbarrier.complete_tx")
def mbarrier_tx(machine: Machine, ins: PtxInstruction) -> None:
    given = number_of(machine, ins.operands[1], ins)
    for lane, mbarrier in mbarriers(machine, ins.operands[0], ins):
        bytes_ = given(lane)
        expect, complete = (bytes_, 0) if ins.has("expect_tx") else (0, bytes_)
        step = MbarrierArrive(
            mbarrier.barrier, 0, expect, complete, Sem.RELAXED, scope_of(ins, Scope.CTA)
        )
        machine.emit(lane, step)
        mbarrier.bytes += expect - complete
        machine.sync.complete_phase(mbarrier)


@control("mbarrier.try_wait", "mbarrier.test_wait")
def mbarrier_wait(machine: Machine, ins: PtxInstruction) -> None:
    """A wait in a loop blocks until its phase is complete; a single try is taken to fail."""
    if not _is_loop(machine, ins):
        note = f"line {ins.line}: {ins.opcode} outside a loop is taken to fail"
        machine.notes[note] = None
        machine.write(ins.operands[0], machine.constant(0))
        return
    given = number_of(machine, ins.operands[2], ins)
    sem, scope = sem_of(ins, Sem.ACQUIRE), scope_of(ins, Scope.CTA)
    found = mbarriers(machine, ins.operands[1], ins)
    machine.write(ins.operands[0], machine.constant(1))
    for lane, mbarrier in found:
        parity = given(lane) & 1
        machine.emit(lane, MbarrierTryWait(mbarrier.barrier, parity, sem, scope))
        if not passes(mbarrier, parity):
            mbarrier.waiting.append((lane, parity))
            machine.sync.block(lane)


def _is_loop(machine: Machine, ins: PtxInstruction, reach: int = 16) -> bool:
    """Whether a branch soon after goes back to just before: the loop of a blocking wait."""
    for later in machine.code[ins.index + 1 : ins.index + 1 + reach]:
        if later.parts[0] == "bra":
            goal = target_of(machine, later)
            if ins.index - reach <= goal <= ins.index:
                return True
        elif later.parts[0] not in ("selp", "setp", "mov", "and", "xor", "not", "nanosleep"):
            return False
    return False


# --- cluster addresses --------------------------------------------------------------------------------------------------


@data("mapa")
def mapa(machine: Machine, ins: PtxInstruction) -> None:
    """The same shared variable in the CTA of another rank (§9.7.9.23)."""
    address, rank = machine.read(ins.operands[1], ins.type), machine.read(ins.operands[2], "b32")
    shift = np.uint64(CTA_SHIFT)
    low = np.uint64((1 << CTA_SHIFT) - 1)
    window = (address.bits >> np.uint64(44)) << np.uint64(44)
    bits = window | (rank.bits << shift) | (address.bits & low)
    machine.write(ins.operands[0], machine.derive(ins.opcode, [address, rank], bits))


@data("getctarank")
def getctarank(machine: Machine, ins: PtxInstruction) -> None:
    address = machine.read(ins.operands[1], ins.type)
    window = np.uint64((1 << 44) - 1)
    bits = (address.bits & window) >> np.uint64(CTA_SHIFT)
    machine.write(ins.operands[0], machine.derive(ins.opcode, [address], bits))
