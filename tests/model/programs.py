"""A small notation for programs in tests: agents written as lists of instructions.

`threads(T0=[st(X), arrive(B)], T1=[wait(B), ld(X)])` makes one thread a name, each in a warp of
its own in CTA 0. `agent` places one elsewhere; `program` collects them. Barriers and arrays are
found in the instructions. `X`, `Y` are shared, `G` is global, `T`, `U`, `D` tensor memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lastread.model import instructions as ins
from lastread.model.composition import ALL_CTAS
from lastread.model.instructions import Instruction, Proxy, Scope, Sem, Signal
from lastread.model.program import Agent, Barrier, Choice, Program, Region, Source, Space, Step

CTA, CLUSTER, GPU = Scope.CTA, Scope.CLUSTER, Scope.GPU
RELAXED, ACQUIRE, RELEASE, ACQ_REL = Sem.RELAXED, Sem.ACQUIRE, Sem.RELEASE, Sem.ACQ_REL
KILO = 1024
_HOPS = [(Proxy.ASYNC, cta) for cta in (0, 1, ALL_CTAS)]
ASYNC_FENCES = frozenset([(hop,) for hop in _HOPS] + [(a, b) for a in _HOPS for b in _HOPS])
"""As if fence.proxy.async had been passed everywhere."""


def shared(name: str, cta: int = 0) -> Region:
    """One kilobyte of shared memory; other names are other bytes."""
    start = KILO * (ord(name[0]) - ord("a"))
    return Region(Space.SHARED, cta, (start, start + KILO), array=name)


def far(name: str) -> Region:
    """One kilobyte of global memory."""
    start = KILO * (ord(name[0]) - ord("a"))
    return Region(Space.GLOBAL, -1, (start, start + KILO), array=name)


def tmem(name: str, cta: int = 0) -> Region:
    """Sixteen columns of tensor memory, all lanes."""
    start = 16 * (ord(name[0]) - ord("a"))
    return Region(Space.TMEM, cta, (start, start + 16), (0, 128), name)


def mbar(name: str, count: int | None = 1, cta: int = 0, bytes_known: bool = False) -> Barrier:
    """An mbarrier; with `bytes_known` its initialisation and use are accesses."""
    place = 65536 + 8 * (ord(name[0]) - ord("a"))
    region = Region(Space.SHARED, cta, (place, place + 8), array=name)
    return Barrier(name, None, cta, count, region if bytes_known else None)


X, Y, Z = shared("x"), shared("y"), shared("z")
G, H = far("g"), far("h")
T, U, D, E = tmem("t"), tmem("u"), tmem("d"), tmem("e")
B, B2, B3 = mbar("b"), mbar("c"), mbar("e")
REMOTE = mbar("r", cta=1)


# --- instructions -----------------------------------------------------------------------------


def st(region: Region, *registers: str, value: str | None = None) -> Instruction:
    return ins.Store(region, registers, value=value)


def ld(region: Region, register: str = "") -> Instruction:
    return ins.Load(region, register)


def fence(sem: Sem = ACQ_REL, scope: Scope = CTA) -> Instruction:
    return ins.Fence(sem, scope)


def proxy_fence(space: Space | None = None) -> Instruction:
    return ins.FenceProxyAsync(space)


def use(*registers: str) -> Instruction:
    return ins.Use(registers)


def copy(register: str, *registers: str) -> Instruction:
    return ins.Compute(register, registers, "mov")


def init(barrier: Barrier, count: int = 1) -> Instruction:
    return ins.MbarrierInit(barrier, count)


def inval(barrier: Barrier) -> Instruction:
    return ins.MbarrierInval(barrier)


def arrive(
    barrier: Barrier, sem: Sem = RELEASE, scope: Scope = CTA, expect: int = 0, count: int = 1
) -> Instruction:
    return ins.MbarrierArrive(barrier, count, expect, sem=sem, scope=scope)


def expect_tx(barrier: Barrier, size: int = KILO) -> Instruction:
    return ins.MbarrierArrive(barrier, 0, size, sem=RELAXED)


def complete_tx(barrier: Barrier, size: int = KILO) -> Instruction:
    return ins.MbarrierArrive(barrier, 0, 0, size, sem=RELAXED)


def wait(barrier: Barrier, parity: int = 0, sem: Sem = ACQUIRE, scope: Scope = CTA) -> Instruction:
    return ins.MbarrierTryWait(barrier, parity, sem, scope)


def relaxed(instruction: Instruction, scope: Scope = CTA) -> Instruction:
    """The same arrive or wait with `.relaxed`."""
    return replace(instruction, sem=RELAXED, scope=scope)  # type: ignore[call-arg]


def wide(instruction: Instruction) -> Instruction:
    """The same arrive, wait or fence with `.cluster`."""
    return replace(instruction, scope=CLUSTER)  # type: ignore[call-arg]


def bar(threads: int, number: int = 0) -> Instruction:
    return ins.Bar(number, threads)


def bar_arrive(threads: int, number: int = 0) -> Instruction:
    return ins.Bar(number, threads, waits=False)


def syncwarp(mask: int = 0xFFFFFFFF) -> Instruction:
    return ins.BarWarpSync(mask)


def cluster_arrive(sem: Sem = RELEASE) -> Instruction:
    return ins.ClusterArrive(sem)


def cluster_wait(sem: Sem = ACQUIRE) -> Instruction:
    return ins.ClusterWait(sem)


def cp_async(destination: Region, source: Region | None = None) -> Instruction:
    return ins.CpAsync(destination, source)


def cp_arrive(barrier: Barrier, noinc: bool = True) -> Instruction:
    return ins.CpAsyncMbarrierArrive(barrier, noinc)


def tma_load(destination: Region, barrier: Barrier, size: int = KILO) -> Instruction:
    return ins.BulkCopy((destination,), (), (Signal(barrier, bytes=size),))


def tma_store(source: Region, destination: Region | None = None) -> Instruction:
    return ins.BulkCopy((destination,) if destination else (), (source,))


def mma(
    d: Region, a: Region | None = None, b: Region | None = None, shape: str = "", kind: str = "f16"
) -> Instruction:
    """D += A·B; A may be in tensor memory."""
    return ins.Tcgen05Mma(
        (d,), (a,) if a else (), (b,) if b else (), shape=shape, kind=kind
    )  # fmt: skip


def commit(*barriers: Barrier) -> Instruction:
    return ins.Tcgen05Commit(barriers)


def t_ld(region: Region, register: str = "") -> Instruction:
    return ins.Tcgen05Ld(region, register)


def t_st(region: Region, *registers: str) -> Instruction:
    return ins.Tcgen05St(region, registers)


def t_cp(destination: Region, source: Region | None = None) -> Instruction:
    return ins.Tcgen05Cp(destination, source)


def wgmma(a: Region, b: Region) -> Instruction:
    return ins.WgmmaMma(a, b)


def wgmma_wait(pending: int = 0) -> Instruction:
    return ins.WgmmaWaitGroup(pending)


def st_async(destination: Region, barrier: Barrier, size: int = KILO) -> Instruction:
    return ins.StAsync(destination, Signal(barrier, bytes=size))


WGMMA_FENCE, WGMMA_COMMIT = ins.WgmmaFence(), ins.WgmmaCommitGroup()
WAIT_LD, WAIT_ST = ins.Tcgen05Wait(), ins.Tcgen05Wait(stores=True)
BEFORE, AFTER = ins.Tcgen05Fence(), ins.Tcgen05Fence(after=True)
COMMIT_GROUP, CP_COMMIT = ins.BulkCommitGroup(), ins.CpAsyncCommitGroup()
INIT_FENCE = ins.FenceMbarrierInit()


def wait_group(pending: int = 0) -> Instruction:
    return ins.BulkWaitGroup(pending)


def wait_group_read(pending: int = 0) -> Instruction:
    return ins.BulkWaitGroup(pending, read=True)


def cp_wait(pending: int | None = 0) -> Instruction:
    return ins.CpAsyncWaitGroup(pending)


# --- programs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guarded:
    """An instruction on one outcome of a data-dependent branch."""

    instruction: Instruction
    site: str
    outcome: bool


@dataclass(frozen=True)
class At:
    """An instruction at a position shared by the lanes of a warp."""

    position: int
    instruction: Instruction


Line = Instruction | Guarded | At


def when(site: str, *instructions: Instruction, outcome: bool = True) -> list[Guarded]:
    return [Guarded(i, site, outcome) for i in instructions]


def agent(
    name: str, steps: Sequence[Line], cta: int = 0, warp: int = 0, lanes: int = 1, thread: int = 0
) -> Agent:
    made = [_step(line, number + 1) for number, line in enumerate(steps)]
    return Agent(name, cta, warp, lanes, made, thread or 32 * warp)


def _step(line: Line, number: int) -> Step:
    source = Source(number)
    if isinstance(line, Guarded):
        choice = Choice(line.site, 0)
        return Step(line.instruction, source, guard=frozenset(((choice, line.outcome),)))
    if isinstance(line, At):
        return Step(line.instruction, source, position=line.position)
    return Step(line, source)


def program(*agents: Agent) -> Program:
    """The agents with all arrays and barriers that their instructions name."""
    arrays: dict[str, list[Region]] = {}
    barriers: dict[Barrier, None] = {}
    for one in agents:
        for step in one.steps:
            for access in step.instruction.accesses:
                places = arrays.setdefault(access.region.array, [])
                if access.region not in places:
                    places.append(access.region)
            barriers.update(dict.fromkeys(_barriers(step.instruction)))
    return Program("test", {}, list(agents), arrays, list(barriers))


def _barriers(instruction: Instruction) -> list[Barrier]:
    found = [signal.barrier for signal in instruction.signals]
    if isinstance(instruction, ins.MbarrierInstruction):
        found.append(instruction.barrier)
    return found


def threads(**strands: Sequence[Line]) -> Program:
    """One thread a name, each in a warp of its own, all in CTA 0."""
    return program(*(agent(n, s, warp=w) for w, (n, s) in enumerate(strands.items())))


def warps(**strands: Sequence[Line]) -> Program:
    """Whole warps of CTA 0: an arrival counts 32."""
    return program(*(agent(n, s, warp=w, lanes=32) for w, (n, s) in enumerate(strands.items())))


def lanes(**strands: Sequence[Line]) -> Program:
    """Single threads of one warp."""
    return program(*(agent(n, s, thread=t) for t, (n, s) in enumerate(strands.items())))


def ctas(**strands: Sequence[Line]) -> Program:
    """One thread a CTA of one cluster: the first in CTA 0, the next in CTA 1, and so on."""
    return program(*(agent(n, s, cta=c) for c, (n, s) in enumerate(strands.items())))
