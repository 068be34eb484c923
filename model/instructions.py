"""The instruction set: one class an instruction, each split into issue, accesses and completion.

An asynchronous instruction is not one event. Its issue stands in program order; its accesses do
not; its completion signals an mbarrier, or retires with a group. A class says

- `accesses`: what memory it touches, through which proxy, as which operand;
- `pool`: in which pool those accesses are pending until a rule of `rules.py` completes them;
- `signals`: the mbarriers that its completion arrives on;
- `reads` and `writes`: the registers it uses and defines (for dead loads and register use).

To add an instruction, write its class here, say in `rules.py` what it orders, and give it tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import ClassVar

from .program import Barrier, Name, Region, Space


class Proxy(Name):
    """Access methods (PTX ISA §8.6). Tensor memory has rules of its own (§9.7.18.6)."""

    GENERIC = "generic"
    ASYNC = "async"
    TMEM = "tmem"
    SURFACE = "surface"
    TEXTURE = "texture"
    CONSTANT = "constant"


class Pool(Name):
    """What kind of unfinished access it is: decides which rules can complete it."""

    GENERIC = "generic"
    CP_ASYNC = "cp.async"
    BULK = "bulk"
    TCGEN05_LD = "tcgen05.ld"
    TCGEN05_ST = "tcgen05.st"
    TCGEN05_MMA = "tcgen05.mma"
    WGMMA = "wgmma"


class Scope(IntEnum):
    """PTX ISA §8.5. THREAD is ours: visible to the executing thread only. A warp is no scope."""

    THREAD = 0
    CTA = 1
    CLUSTER = 2
    GPU = 3
    SYS = 4


class Sem(Name):
    """Memory semantics of a synchronizing instruction (PTX ISA §8.4)."""

    WEAK = "weak"
    RELAXED = "relaxed"
    ACQUIRE = "acquire"
    RELEASE = "release"
    ACQ_REL = "acq_rel"
    SC = "sc"

    @property
    def acquires(self) -> bool:
        return self in (Sem.ACQUIRE, Sem.ACQ_REL, Sem.SC)

    @property
    def releases(self) -> bool:
        return self in (Sem.RELEASE, Sem.ACQ_REL, Sem.SC)


class Role(Name):
    """What an access does to its bytes. ALLOC and FREE bound a lifetime; OBJECT: an mbarrier."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    ALLOC = "alloc"
    FREE = "free"
    OBJECT = "object"

    @property
    def changes(self) -> bool:
        """Conflicts with every other access of the same bytes, reads included."""
        return self in (Role.WRITE, Role.ALLOC, Role.FREE)


@dataclass(frozen=True)
class Access:
    """One operand's access. `operand` is the field's name for it: A, B, D, source, destination."""

    role: Role
    region: Region
    proxy: Proxy
    operand: str = ""
    strong: Scope | None = None
    """The scope of a strong operation (§8.4); None for weak."""
    address: str = ""
    """The virtual address, when the bytes have several (§8.6)."""


@dataclass(frozen=True)
class Signal:
    """Completion of an asynchronous operation at an mbarrier.

    `count` arrivals (tcgen05.commit, cp.async.mbarrier.arrive) or `bytes` of complete_tx (TMA).
    `accesses` are the operand indices it covers (None: all of the operation).
    """

    barrier: Barrier
    count: int = 0
    bytes: int = 0
    accesses: tuple[int, ...] | None = None

    @property
    def objects(self) -> tuple[Access, ...]:
        """The arrival uses the barrier object, by the generic proxy (§9.7.15.16.3)."""
        return _objects(self.barrier, Role.OBJECT)


def _objects(barrier: Barrier, role: Role) -> tuple[Access, ...]:
    """The access to the object itself, when its place in memory is known."""
    if barrier.region is None:
        return ()
    return (Access(role, barrier.region, Proxy.GENERIC, "mbarrier"),)


@dataclass(frozen=True)
class Instruction:
    """Base of all instructions; subclasses override what they have."""

    mnemonic: ClassVar[str] = ""
    since: ClassVar[str] = "6.0"
    """The first ISA version that the model knows it in."""
    pool: ClassVar[Pool] = Pool.GENERIC

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        return ()

    @property
    def signals(self) -> tuple[Signal, ...]:
        return ()

    @property
    def reads(self) -> tuple[str, ...]:
        return ()

    @property
    def writes(self) -> tuple[str, ...]:
        return ()

    @property
    def text(self) -> str:
        """The instruction as people read it in a schedule."""
        places = ", ".join(dict.fromkeys(access.region.label for access in self.accesses))
        return f"{self.mnemonic} {places}".strip()


# --- generic memory operations (PTX ISA §8.2, §9.7.9) ---------------------------------------


@dataclass(frozen=True)
class Load(Instruction):
    """ld, or a read through another proxy (suld, tld): `register` receives the value.

    `.nc` loads are outside the model (§8.2); taken as ld.
    """

    region: Region
    register: str = ""
    sem: Sem = Sem.WEAK
    scope: Scope = Scope.CTA
    proxy: Proxy = Proxy.GENERIC
    address: str = ""
    mnemonic = "ld"

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        strong = None if self.sem is Sem.WEAK else self.scope
        return (Access(Role.READ, self.region, self.proxy, "source", strong, self.address),)

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.register,) if self.register else ()


@dataclass(frozen=True)
class Store(Instruction):
    """st: stores the value of `registers` (none: a constant or a value not tracked).

    `value` names a constant, so that stores of one constant are seen to be equal.
    """

    region: Region
    registers: tuple[str, ...] = ()
    sem: Sem = Sem.WEAK
    scope: Scope = Scope.CTA
    value: str | None = None
    proxy: Proxy = Proxy.GENERIC
    address: str = ""
    mnemonic = "st"

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        strong = None if self.sem is Sem.WEAK else self.scope
        return (Access(Role.WRITE, self.region, self.proxy, "destination", strong, self.address),)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.registers


@dataclass(frozen=True)
class Atomic(Instruction):
    """atom / red: a strong read-modify-write, relaxed.gpu unless said otherwise (§8.5).

    `returns` is False for red, which gives nothing back and starts no acquire pattern (§8.8).
    """

    region: Region
    register: str = ""
    registers: tuple[str, ...] = ()
    sem: Sem = Sem.RELAXED
    scope: Scope = Scope.GPU
    proxy: Proxy = Proxy.GENERIC
    address: str = ""
    returns: bool = True
    mnemonic = "atom"

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        return (
            Access(Role.ATOMIC, self.region, self.proxy, "destination", self.scope, self.address),
        )

    @property
    def reads(self) -> tuple[str, ...]:
        return self.registers

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.register,) if self.register else ()


@dataclass(frozen=True)
class Fence(Instruction):
    """fence.{acq_rel,acquire,release,sc}.scope (§9.7.15.4)."""

    sem: Sem = Sem.ACQ_REL
    scope: Scope = Scope.CTA
    mnemonic = "fence"

    @property
    def text(self) -> str:
        return f"fence.{self.sem.value}.{self.scope.name.lower()}"


@dataclass(frozen=True)
class FenceProxyAsync(Instruction):
    """fence.proxy.async: generic and async proxy, both ways (§9.7.15.4). None: every space."""

    since = "8.6"

    space: Space | None = None
    mnemonic = "fence.proxy.async"
    crosses: ClassVar[Proxy | None] = Proxy.ASYNC

    @property
    def text(self) -> str:
        return self.mnemonic if self.space is None else f"{self.mnemonic}.{self.space.value}"


@dataclass(frozen=True)
class FenceProxy(Instruction):
    """fence.proxy of a proxy other than async, both ways (§9.7.15.4). None: fence.proxy.alias."""

    since = "7.5"

    proxy: Proxy | None = None
    mnemonic = "fence.proxy"

    @property
    def crosses(self) -> Proxy | None:
        """Whose accesses it joins with generic ones; None: those by other virtual addresses."""
        return self.proxy

    @property
    def text(self) -> str:
        return f"{self.mnemonic}.{'alias' if self.proxy is None else self.proxy.value}"


@dataclass(frozen=True)
class FenceMbarrierInit(Instruction):
    """fence.mbarrier_init.release.cluster: the thread's earlier mbarrier.init only."""

    since = "8.6"

    mnemonic = "fence.mbarrier_init"


# --- registers ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Use(Instruction):
    """A vote, shuffle or branch: needs the values of `registers` to go on."""

    registers: tuple[str, ...]
    kind: str = "vote"
    mnemonic = "use"

    @property
    def reads(self) -> tuple[str, ...]:
        return self.registers

    @property
    def text(self) -> str:
        return f"{self.kind} {', '.join(self.registers)}"


@dataclass(frozen=True)
class Compute(Instruction):
    """Arithmetic or a copy: `register` := f(`registers`). Not itself a use of what it reads."""

    register: str
    registers: tuple[str, ...]
    function: str = "f"
    mnemonic = "compute"

    @property
    def reads(self) -> tuple[str, ...]:
        return self.registers

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.register,)

    @property
    def text(self) -> str:
        return f"{self.register} = {self.function}({', '.join(self.registers)})"


# --- mbarrier (§9.7.15.16) ------------------------------------------------------------------


@dataclass(frozen=True)
class MbarrierInstruction(Instruction):
    since = "8.6"
    barrier: Barrier

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        return _objects(self.barrier, Role.OBJECT)

    @property
    def text(self) -> str:
        return f"{self.mnemonic} {self.barrier.label}"


@dataclass(frozen=True)
class MbarrierInit(MbarrierInstruction):
    count: int = 1
    mnemonic = "mbarrier.init"

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        return _objects(self.barrier, Role.ALLOC)


@dataclass(frozen=True)
class MbarrierInval(MbarrierInstruction):
    mnemonic = "mbarrier.inval"

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        if self.barrier.region is None:
            return ()
        return (Access(Role.FREE, self.barrier.region, Proxy.GENERIC, "mbarrier"),)


@dataclass(frozen=True)
class MbarrierArrive(MbarrierInstruction):
    """arrive / arrive.expect_tx / expect_tx / complete_tx.

    `count` is per lane (0 for a bare expect_tx or complete_tx); `expect` bytes are added before
    the arrival, `complete` bytes subtracted. Default `.release.cta`, also for remote objects.
    """

    count: int = 1
    expect: int = 0
    complete: int = 0
    sem: Sem = Sem.RELEASE
    scope: Scope = Scope.CTA
    mnemonic = "mbarrier.arrive"

    @property
    def text(self) -> str:
        if self.complete:
            return f"mbarrier.complete_tx {self.barrier.label}"
        if not self.count:
            return f"mbarrier.expect_tx {self.barrier.label}"
        name = "mbarrier.arrive.expect_tx" if self.expect else "mbarrier.arrive"
        sem = (
            ""
            if (self.sem, self.scope) == (Sem.RELEASE, Scope.CTA)
            else (f".{self.sem.value}.{self.scope.name.lower()}")
        )
        return f"{name}{sem} {self.barrier.label}"


@dataclass(frozen=True)
class MbarrierTryWait(MbarrierInstruction):
    """try_wait.parity, looped: passes once the number of completed phases has the other parity."""

    parity: int = 0
    sem: Sem = Sem.ACQUIRE
    scope: Scope = Scope.CTA
    mnemonic = "mbarrier.try_wait.parity"

    @property
    def text(self) -> str:
        sem = (
            ""
            if (self.sem, self.scope) == (Sem.ACQUIRE, Scope.CTA)
            else (f".{self.sem.value}.{self.scope.name.lower()}")
        )
        return f"{self.mnemonic}{sem} {self.barrier.label}, {self.parity}"


# --- execution barriers (§9.7.15.1-3) -------------------------------------------------------


@dataclass(frozen=True)
class Bar(Instruction):
    """bar.sync / bar.arrive on barrier `id` of the CTA, for `threads` threads in all."""

    id: int
    threads: int
    waits: bool = True
    spaces: frozenset[Space] = frozenset((Space.SHARED, Space.GLOBAL))
    """Memory it orders: all on CUDA; only the flagged memory on Metal."""
    name: str = "bar"
    everyone: bool = False
    """No count given: all threads of the CTA that have not exited."""
    rearms: bool = True
    """False: one execution of the barrier, which late threads pass at once (litmus tests)."""

    @property
    def text(self) -> str:
        if self.name != "bar":
            return self.name
        return f"bar.{'sync' if self.waits else 'arrive'} {self.id}, {self.threads}"


@dataclass(frozen=True)
class BarWarpSync(Instruction):
    """bar.warp.sync: orders memory among the lanes of the warp that execute it (§9.7.15.2)."""

    mask: int = 0xFFFFFFFF
    mnemonic = "bar.warp.sync"


@dataclass(frozen=True)
class ClusterArrive(Instruction):
    """barrier.cluster.arrive, release by default (§9.7.15.3)."""

    since = "8.6"

    sem: Sem = Sem.RELEASE
    mnemonic = "barrier.cluster.arrive"


@dataclass(frozen=True)
class ClusterWait(Instruction):
    """barrier.cluster.wait, acquire by default."""

    since = "8.6"

    sem: Sem = Sem.ACQUIRE
    mnemonic = "barrier.cluster.wait"


# --- asynchronous copies (§9.7.10.28) -------------------------------------------------------


@dataclass(frozen=True)
class CpAsync(Instruction):
    """cp.async: generic proxy, weak, unordered until its group or mbarrier completes (§8.9.1.1)."""

    destination: Region
    source: Region | None = None
    since = "7.5"
    mnemonic = "cp.async"
    pool = Pool.CP_ASYNC

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        write = Access(Role.WRITE, self.destination, Proxy.GENERIC, "destination")
        if self.source is None:
            return (write,)
        return (write, Access(Role.READ, self.source, Proxy.GENERIC, "source"))


@dataclass(frozen=True)
class CpAsyncCommitGroup(Instruction):
    since = "7.5"
    mnemonic = "cp.async.commit_group"


@dataclass(frozen=True)
class CpAsyncWaitGroup(Instruction):
    """All but the newest `pending` groups of this thread are complete; None: wait_all."""

    pending: int | None = 0
    since = "7.5"
    mnemonic = "cp.async.wait_group"

    @property
    def text(self) -> str:
        return "cp.async.wait_all" if self.pending is None else f"{self.mnemonic} {self.pending}"


@dataclass(frozen=True)
class CpAsyncMbarrierArrive(Instruction):
    """Arrives on `barrier` once all prior cp.async of the thread are done (§9.7.15.16).

    Without `.noinc` the pending count is first raised by one: net zero for the phase.
    """

    since = "8.6"

    barrier: Barrier
    noinc: bool = False
    lanes: int = 1
    mnemonic = "cp.async.mbarrier.arrive"

    @property
    def signals(self) -> tuple[Signal, ...]:
        return (Signal(self.barrier, count=self.lanes),)

    @property
    def text(self) -> str:
        return f"{self.mnemonic}{'.noinc' if self.noinc else ''} {self.barrier.label}"


@dataclass(frozen=True)
class BulkCopy(Instruction):
    """cp.async.bulk / .tensor (TMA), either direction; async proxy.

    A load has `targets`: complete_tx at an mbarrier of each destination CTA. A store has none and
    retires with its bulk group.
    """

    since = "8.6"

    destinations: tuple[Region, ...] = ()
    sources: tuple[Region, ...] = ()
    targets: tuple[Signal, ...] = ()
    mnemonic = "cp.async.bulk.tensor"
    pool = Pool.BULK

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        writes = [Access(Role.WRITE, r, Proxy.ASYNC, "destination") for r in self.destinations]
        reads = [Access(Role.READ, r, Proxy.ASYNC, "source") for r in self.sources]
        return tuple(writes + reads)

    @property
    def signals(self) -> tuple[Signal, ...]:
        return self.targets

    @property
    def text(self) -> str:
        places = ", ".join(dict.fromkeys(r.label for r in self.destinations + self.sources))
        return f"TMA {'load' if self.targets else 'store'} {places}"


@dataclass(frozen=True)
class StAsync(Instruction):
    """st.async / red.async: a weak write, or a relaxed reduction (`reduces`), whose completion
    counts bytes at an mbarrier (§9.7.9.12). The proxy is unsaid; taken as generic."""

    since = "8.6"

    destination: Region
    target: Signal
    reduces: bool = False
    mnemonic = "st.async"
    pool = Pool.BULK

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        role, strong = (Role.ATOMIC, Scope.CLUSTER) if self.reduces else (Role.WRITE, None)
        return (Access(role, self.destination, Proxy.GENERIC, "destination", strong),)

    @property
    def signals(self) -> tuple[Signal, ...]:
        return (self.target,)


@dataclass(frozen=True)
class BulkCommitGroup(Instruction):
    since = "8.6"
    mnemonic = "cp.async.bulk.commit_group"


@dataclass(frozen=True)
class BulkWaitGroup(Instruction):
    """All but the newest `pending` bulk groups are complete; `.read`: sources only."""

    since = "8.6"

    pending: int = 0
    read: bool = False
    mnemonic = "cp.async.bulk.wait_group"

    @property
    def text(self) -> str:
        return f"{self.mnemonic}{'.read' if self.read else ''} {self.pending}"


# --- wgmma (§9.7.17) ------------------------------------------------------------------------


@dataclass(frozen=True)
class WgmmaFence(Instruction):
    """wgmma.fence: shared memory and registers before it, then the warp's later mma_async."""

    since = "8.6"
    mnemonic = "wgmma.fence.sync.aligned"


@dataclass(frozen=True)
class WgmmaMma(Instruction):
    """wgmma.mma_async: reads A and B from shared memory by the async proxy, and is not even
    ordered after the instructions before it (§8.9.1.1). D is in registers, not followed here."""

    since = "8.6"

    a: Region
    b: Region
    mnemonic = "wgmma.mma_async"
    pool = Pool.WGMMA

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        return (
            Access(Role.READ, self.a, Proxy.ASYNC, "A"),
            Access(Role.READ, self.b, Proxy.ASYNC, "B"),
        )


@dataclass(frozen=True)
class WgmmaCommitGroup(Instruction):
    since = "8.6"
    mnemonic = "wgmma.commit_group"


@dataclass(frozen=True)
class WgmmaWaitGroup(Instruction):
    """All but the newest `pending` wgmma groups are complete."""

    since = "8.6"

    pending: int = 0
    mnemonic = "wgmma.wait_group"

    @property
    def text(self) -> str:
        return f"{self.mnemonic} {self.pending}"


# --- tcgen05 (§9.7.18) ----------------------------------------------------------------------


@dataclass(frozen=True)
class Tcgen05Alloc(Instruction):
    """tcgen05.alloc: the columns live from here; `address` is the shared word that gets taddr."""

    since = "8.6"

    columns: Region
    address: Region | None = None
    mnemonic = "tcgen05.alloc"

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        alloc = Access(Role.ALLOC, self.columns, Proxy.TMEM, "columns")
        if self.address is None:
            return (alloc,)
        return (alloc, Access(Role.WRITE, self.address, Proxy.GENERIC, "address"))


@dataclass(frozen=True)
class Tcgen05Dealloc(Instruction):
    since = "8.6"
    columns: Region
    mnemonic = "tcgen05.dealloc"

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        return (Access(Role.FREE, self.columns, Proxy.TMEM, "columns"),)


@dataclass(frozen=True)
class Tcgen05Ld(Instruction):
    since = "8.6"
    region: Region
    register: str = ""
    mnemonic = "tcgen05.ld"
    pool = Pool.TCGEN05_LD

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        return (Access(Role.READ, self.region, Proxy.TMEM, "source"),)

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.register,) if self.register else ()


@dataclass(frozen=True)
class Tcgen05St(Instruction):
    since = "8.6"
    region: Region
    registers: tuple[str, ...] = ()
    mnemonic = "tcgen05.st"
    pool = Pool.TCGEN05_ST

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        return (Access(Role.WRITE, self.region, Proxy.TMEM, "destination"),)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.registers


@dataclass(frozen=True)
class Tcgen05Cp(Instruction):
    """tcgen05.cp: shared memory (async proxy) to tensor memory. `wide`: the .4x256b shape."""

    since = "8.6"

    destination: Region
    source: Region | None = None
    cta_group: int = 1
    wide: bool = False
    peer: tuple[Region, Region | None] | None = None
    """With cta_group 2, the destination and the source in the other CTA of the pair."""
    mnemonic = "tcgen05.cp"
    pool = Pool.TCGEN05_MMA

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        found = []
        for destination, source in ((self.destination, self.source), self.peer or (None, None)):
            if destination is not None:
                found.append(Access(Role.WRITE, destination, Proxy.TMEM, "destination"))
            if source is not None:
                found.append(Access(Role.READ, source, Proxy.ASYNC, "source"))
        return tuple(found)


@dataclass(frozen=True)
class Tcgen05Mma(Instruction):
    """tcgen05.mma D += A·B. D regions are read (when `accumulate`) and written; A may be in TMEM.

    With cta_group 2 the operands of both CTAs are listed. `shape` and `kind` are compared only
    for equality by the pipelined pairs.
    """

    since = "8.6"

    d: tuple[Region, ...]
    a: tuple[Region, ...] = ()
    b: tuple[Region, ...] = ()
    accumulate: bool = True
    cta_group: int = 1
    shape: str = ""
    kind: str = "f16"
    mnemonic = "tcgen05.mma"
    pool = Pool.TCGEN05_MMA

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        found = []
        for region in self.a:
            proxy = Proxy.TMEM if region.space is Space.TMEM else Proxy.ASYNC
            found.append(Access(Role.READ, region, proxy, "A"))
        found += [Access(Role.READ, region, Proxy.ASYNC, "B") for region in self.b]
        if self.accumulate:
            found += [Access(Role.READ, region, Proxy.TMEM, "C") for region in self.d]
        found += [Access(Role.WRITE, region, Proxy.TMEM, "D") for region in self.d]
        return tuple(found)

    @property
    def text(self) -> str:
        places = dict.fromkeys(r.label for r in (*self.d, *self.a, *self.b))
        return f"{self.mnemonic} {', '.join(places)}"


@dataclass(frozen=True)
class Tcgen05Commit(Instruction):
    """tcgen05.commit: arrives once on each barrier (one a CTA with multicast) when all prior
    mma, cp and shift of the executing thread with this cta_group have completed."""

    since = "8.6"

    barriers: tuple[Barrier, ...]
    cta_group: int = 1
    mnemonic = "tcgen05.commit"

    @property
    def signals(self) -> tuple[Signal, ...]:
        return tuple(Signal(barrier, count=1) for barrier in self.barriers)

    @property
    def text(self) -> str:
        return f"{self.mnemonic} {', '.join(dict.fromkeys(b.label for b in self.barriers))}"


@dataclass(frozen=True)
class Tcgen05Wait(Instruction):
    """tcgen05.wait::ld or ::st: the thread's earlier loads (stores) are complete (§9.7.18.8.5)."""

    since = "8.6"

    stores: bool = False

    @property
    def text(self) -> str:
        return f"tcgen05.wait::{'st' if self.stores else 'ld'}"


@dataclass(frozen=True)
class Tcgen05Fence(Instruction):
    """tcgen05.fence::before_thread_sync or ::after_thread_sync (§9.7.18.11)."""

    since = "8.6"

    after: bool = False

    @property
    def text(self) -> str:
        return f"tcgen05.fence::{'after' if self.after else 'before'}_thread_sync"


def since(instruction: Instruction) -> str:
    """The first ISA version that the model knows the instruction in, with what qualifies it:
    one-sided fences and `.cluster` scope are younger than the instructions they qualify."""
    one_sided = isinstance(instruction, Fence) and instruction.sem in (Sem.ACQUIRE, Sem.RELEASE)
    clustered = getattr(instruction, "scope", None) is Scope.CLUSTER
    return "8.6" if one_sided or clustered else instruction.since


EVERY_INSTRUCTION: tuple[type[Instruction], ...] = (
    Load, Store, Atomic, Fence, FenceProxyAsync, FenceProxy, FenceMbarrierInit, Use, Compute,
    MbarrierInit, MbarrierInval, MbarrierArrive, MbarrierTryWait,
    Bar, BarWarpSync, ClusterArrive, ClusterWait,
    CpAsync, CpAsyncCommitGroup, CpAsyncWaitGroup, CpAsyncMbarrierArrive,
    BulkCopy, StAsync, BulkCommitGroup, BulkWaitGroup,
    WgmmaFence, WgmmaMma, WgmmaCommitGroup, WgmmaWaitGroup,
    Tcgen05Alloc, Tcgen05Dealloc, Tcgen05Ld, Tcgen05St, Tcgen05Cp, Tcgen05Mma, Tcgen05Commit,
    Tcgen05Wait, Tcgen05Fence,
)  # fmt: skip
