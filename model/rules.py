"""The rule table: every order edge has a name here, with its place in the PTX ISA (9.4 numbers).

Three kinds of rule, one table:

- COVER: a later instruction of the thread, or the operation's own completion, says that a pending
  access has been performed (`takes`: from which pools).
- BOUND: a later access of the thread is not performed before this instruction.
- HAND_OFF: what is performed in one thread is ordered before another thread's later accesses.

`pipelined` and the proxy rules judge a pair directly. How the rules compose along a path is the
second table, in `composition.py`. Both are data, so that a test can remove or loosen one row and
see a verdict change. A rule whose condition is more than a class and a pool is asked for by name
where it applies: `build.py` (bounds, pipes, signals), `causality.py` (proxies, pairs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from . import instructions as ins
from .instructions import Access, Instruction, Pool
from .readings import (
    ACQUIRE_TCGEN05,
    ASYNC_READ_DONE,
    COMPLETED_RIDES,
    CTA_SPANS_CLUSTER,
    FENCE_ANYWHERE,
    LANES_TOGETHER,
    OWN_EFFECTS,
    REGISTER_USE,
    WAR_NO_FENCE,
    Reading,
)


class Kind(Enum):
    COVER = "cover"
    BOUND = "bound"
    HAND_OFF = "hand-off"
    PAIR = "pair"


class Basis(Enum):
    """How sure we are: read in the text, inferred from it by one step, or practice only."""

    TEXT = "text"
    INFERRED = "inferred"
    PRACTICE = "practice"


def _always(_: Instruction) -> bool:
    return True


def any_access(_: Access) -> bool:
    return True


@dataclass(frozen=True)
class Rule:
    """One row. `at` are the instruction classes it applies at, `when` narrows them, `takes` the
    pools whose pending (COVER) or later (BOUND) accesses it orders, `access` narrows those."""

    name: str
    section: str
    kind: Kind
    gives: str
    does_not_give: str = ""
    basis: Basis = Basis.TEXT
    at: tuple[type[Instruction], ...] = ()
    when: Callable[[Instruction], bool] = _always
    takes: frozenset[Pool] = frozenset()
    access: Callable[[Access], bool] = any_access
    assumption: str | None = None
    since: str = "6.0"
    until: str | None = None

    def applies(self, reading: Reading) -> bool:
        if self.assumption is not None and not reading.holds(self.assumption):
            return False
        return reading.since(self.since) and (self.until is None or reading.until(self.until))

    def fires_at(self, instruction: Instruction) -> bool:
        return isinstance(instruction, self.at) and self.when(instruction)


def _releases(i: Instruction) -> bool:
    sem = getattr(i, "sem", None)
    if isinstance(i, ins.MbarrierArrive) and not i.count:
        return False  # expect_tx and complete_tx are relaxed only (§9.7.15.16.11-12)
    return isinstance(sem, ins.Sem) and sem.releases


def _acquires(i: Instruction) -> bool:
    sem = getattr(i, "sem", None)
    return isinstance(sem, ins.Sem) and sem.acquires


def _is_use(i: Instruction) -> bool:
    """A memory operation, vote, shuffle or branch needs its registers; arithmetic only feeds."""
    return bool(i.reads) and not isinstance(i, ins.Compute)


GENERIC = frozenset((Pool.GENERIC,))
TCGEN05 = frozenset((Pool.TCGEN05_LD, Pool.TCGEN05_ST, Pool.TCGEN05_MMA))
COPIES = frozenset((Pool.BULK, Pool.CP_ASYNC))
EVERY_POOL = frozenset(Pool)

_TABLE: tuple[Rule, ...] = (
    # --- program order ------------------------------------------------------------------------
    Rule(
        "po", "PTX §8.9.5", Kind.BOUND,
        "what is known at an instruction is known at the thread's later ones; a later generic "
        "access is not performed before it",
        "completion of any asynchronous operation: its accesses are not in program order",
        takes=GENERIC,
    ),
    Rule(
        "lanes-run-together", "PTX §3.2 (not granted)", Kind.BOUND,
        "the threads of a warp are one thread for program order",
        "order among the lanes of one instruction",
        basis=Basis.PRACTICE, assumption=LANES_TOGETHER, takes=GENERIC,
    ),
    Rule(
        "iss", "PTX §8.9.1.1", Kind.BOUND,
        "operations before it in program order come before an asynchronous copy's accesses",
        "wgmma and tcgen05; anything after the copy; the issuer's history at its completion",
        at=(ins.BulkCopy, ins.StAsync, ins.CpAsync), takes=COPIES,
    ),
    Rule(
        "acquire-tcgen05", "PTX §9.7.18.6.3", Kind.BOUND,
        "tcgen05 accesses after a successful acquire (or execution barrier) are not performed "
        "before it",
        "anything at a relaxed wait; other earlier instructions",
        basis=Basis.INFERRED,
        at=(ins.MbarrierTryWait, ins.Bar, ins.ClusterWait, ins.BarWarpSync),
        when=lambda i: _acquires(i) or (isinstance(i, ins.Bar) and i.waits)
        or isinstance(i, ins.BarWarpSync),
        takes=TCGEN05, assumption=ACQUIRE_TCGEN05,
    ),
    Rule(
        "after_thread_sync", "PTX §9.7.18.11.1", Kind.BOUND,
        "the thread's later tcgen05 accesses come after the fence and what it has observed",
        "order for shared or global memory; completion",
        at=(ins.Tcgen05Fence,), when=lambda i: isinstance(i, ins.Tcgen05Fence) and i.after,
        takes=TCGEN05,
    ),
    Rule(
        "tcgen05-in-order", "PTX §9.7.18.6.1", Kind.BOUND,
        "tcgen05.wait, alloc and dealloc are ordered with the thread's later tcgen05 operations",
        "completion of operations that no wait names; what the thread acquired from others",
        at=(ins.Tcgen05Wait, ins.Tcgen05Alloc, ins.Tcgen05Dealloc), takes=TCGEN05,
    ),
    Rule(
        "proxy-fence-in-order", "PTX §9.7.15.4", Kind.BOUND,
        "asynchronous-proxy operands of the thread's later tcgen05 operations come after a "
        "fence.proxy.async",
        "tensor-memory operands",
        basis=Basis.INFERRED, at=(ins.FenceProxyAsync,),
        takes=frozenset((Pool.TCGEN05_MMA,)), access=lambda a: a.proxy is ins.Proxy.ASYNC,
    ),
    Rule(
        "issue", "hardware: issue is in order", Kind.BOUND,
        "tcgen05 accesses are not performed before an earlier instruction that needed a loaded "
        "register, nor before their own",
        basis=Basis.PRACTICE, at=(Instruction,), when=_is_use, takes=TCGEN05,
        assumption=REGISTER_USE,
    ),
    # --- completion ---------------------------------------------------------------------------
    Rule(
        "release", "PTX §8.8, §9.7.15.16.13", Kind.COVER,
        "generic accesses before a release are performed before it",
        "asynchronous accesses; accesses after it; anything at a relaxed arrive",
        at=(ins.MbarrierArrive, ins.Fence, ins.Store, ins.Atomic, ins.ClusterArrive),
        when=_releases, takes=GENERIC,
    ),
    Rule(
        "bar", "PTX §9.7.15.1", Kind.COVER,
        "generic accesses of all participants, arrivers included, are performed at the barrier",
        "asynchronous accesses; memory that a Metal barrier's flags do not name",
        at=(ins.Bar,), takes=GENERIC,
    ),
    Rule(
        "metal-flags", "Metal Shading Language, synchronization functions", Kind.COVER,
        "reads of memory that a Metal barrier's flags do not name are done at the barrier, as it "
        "is an execution barrier (reported as a note)",
        "writes; a strict reading", basis=Basis.PRACTICE,
    ),
    Rule(
        "bar.warp.sync", "PTX §9.7.15.2", Kind.COVER,
        "generic accesses of the lanes in the mask are performed", "other warps",
        at=(ins.BarWarpSync,), takes=GENERIC,
    ),
    Rule(
        "fence.mbarrier_init", "PTX §9.7.15.4", Kind.COVER,
        "the thread's earlier mbarrier.init is performed, cluster-wide", "any other access",
        at=(ins.FenceMbarrierInit,), takes=GENERIC,
        access=lambda a: a.role is ins.Role.ALLOC,
    ),
    Rule(
        "wait::ld", "PTX §9.7.18.8.5", Kind.COVER,
        "the warp's earlier tcgen05.ld have read",
        "loads after the wait; stores; other warps",
        at=(ins.Tcgen05Wait,), when=lambda i: isinstance(i, ins.Tcgen05Wait) and not i.stores,
        takes=frozenset((Pool.TCGEN05_LD,)),
    ),
    Rule(
        "wait::st", "PTX §9.7.18.8.5", Kind.COVER,
        "the warp's earlier tcgen05.st have written", "loads; other warps",
        at=(ins.Tcgen05Wait,), when=lambda i: isinstance(i, ins.Tcgen05Wait) and i.stores,
        takes=frozenset((Pool.TCGEN05_ST,)),
    ),
    Rule(
        "register-use", "hardware scoreboard (PTX §9.7.18.6.4.5 does not grant it)", Kind.COVER,
        "a tcgen05.ld has read once an instruction needs one of its registers",
        "lanes that use none; arithmetic and copies whose result nobody needs yet",
        basis=Basis.PRACTICE, at=(Instruction,), when=_is_use,
        takes=frozenset((Pool.TCGEN05_LD,)), assumption=REGISTER_USE,
    ),
    Rule(
        "commit", "PTX §9.7.18.12.1", Kind.COVER,
        "all prior mma, cp and shift of the thread are complete when its arrival is performed",
        "tcgen05.ld and st; other threads; the issuer's generic history",
        at=(ins.Tcgen05Commit,), takes=frozenset((Pool.TCGEN05_MMA,)),
    ),
    Rule(
        "complete_tx", "PTX §8.9.1.1, §9.7.15.16.12", Kind.COVER,
        "the copy's own accesses are complete when its bytes are counted",
        "the issuer's earlier accesses; other copies",
        at=(ins.BulkCopy, ins.StAsync), when=lambda i: bool(i.signals),
        takes=frozenset((Pool.BULK,)),
    ),
    Rule(
        "bulk-group", "PTX §9.7.10.28", Kind.COVER,
        "copies of the thread's older bulk groups are complete, visible to the thread",
        "groups newer than N; other threads",
        at=(ins.BulkWaitGroup,), when=lambda i: isinstance(i, ins.BulkWaitGroup) and not i.read,
        takes=frozenset((Pool.BULK,)),
    ),
    Rule(
        "bulk-group.read", "PTX §9.7.10.28", Kind.COVER,
        "sources of the thread's older bulk groups have been read", "destinations",
        at=(ins.BulkWaitGroup,), when=lambda i: isinstance(i, ins.BulkWaitGroup) and i.read,
        takes=frozenset((Pool.BULK,)), access=lambda a: a.role is ins.Role.READ,
    ),
    Rule(
        "cp.async-group", "PTX §9.7.10.28.3", Kind.COVER,
        "copies of the thread's older cp.async groups are complete, visible to the thread",
        "groups newer than N; other lanes",
        at=(ins.CpAsyncWaitGroup,), takes=frozenset((Pool.CP_ASYNC,)),
    ),
    Rule(
        "cp.async.mbarrier.arrive", "PTX §9.7.15.16.15", Kind.COVER,
        "all prior cp.async of the thread are complete when its arrival is performed",
        "anything else of the thread",
        at=(ins.CpAsyncMbarrierArrive,), takes=frozenset((Pool.CP_ASYNC,)),
    ),
    Rule(
        "wgmma.fence", "PTX §9.7.17.7.1", Kind.COVER,
        "the thread's earlier generic accesses, then its later wgmma.mma_async",
        "a proxy fence, which shared memory needs besides; completion",
        at=(ins.WgmmaFence,), takes=GENERIC,
    ),
    Rule(
        "wgmma-in-order", "PTX §9.7.17.7.1", Kind.BOUND,
        "the accesses of the thread's later wgmma.mma_async come after a wgmma.fence",
        "anything without the fence: mma_async is not ordered after earlier instructions",
        at=(ins.WgmmaFence,), takes=frozenset((Pool.WGMMA,)),
    ),
    Rule(
        "wgmma-group", "PTX §9.7.17.7.3", Kind.COVER,
        "the thread's older wgmma groups are complete", "groups newer than N; other warps",
        at=(ins.WgmmaWaitGroup,), takes=frozenset((Pool.WGMMA,)),
    ),
    # --- hand-off -----------------------------------------------------------------------------
    Rule(
        "mbarrier", "PTX §9.7.15.16.16, §8.9.4", Kind.HAND_OFF,
        "a release arrive of a phase to an acquire wait that observed this phase",
        "a wait passed on a fresh barrier or on another phase; relaxed ends; CTAs outside the "
        "scopes",
    ),
    Rule(
        "async-arrive", "PTX §9.7.18.12.1, §8.9.1.1", Kind.HAND_OFF,
        "a completion's arrival or bytes to a wait that observed this phase",
        "the issuer's pending accesses",
    ),
    Rule(
        "in-flight", "PTX §9.7.18.12.1 (order in time)", Kind.HAND_OFF,
        "what its thread had seen performed before a tcgen05 operation began is before the arrival "
        "of its commit",
        "what its issuer had pending or had only released; bulk copies (§8.9.1.1)",
        basis=Basis.INFERRED, assumption=OWN_EFFECTS,
    ),
    Rule(
        "bar-sync", "PTX §8.9.4", Kind.HAND_OFF,
        "a participant of a barrier to every thread that waited at it",
        "threads that only arrived",
    ),
    Rule(
        "cluster-barrier", "PTX §9.7.15.3", Kind.HAND_OFF,
        "barrier.cluster.arrive to barrier.cluster.wait, in the cluster",
        "a relaxed arrive without a fence; asynchronous operations",
    ),
    Rule(
        "release-write", "PTX §8.8, release pattern (1)", Kind.HAND_OFF,
        "a release write on M begins a release pattern: what is before it is released",
        "operations after it",
    ),
    Rule(
        "release-write-then-write", "PTX §8.8, release pattern (2)", Kind.HAND_OFF,
        "a release on M, then a strong write on M in program order",
        "operations between the two; a write on another location",
    ),
    Rule(
        "release-fence", "PTX §8.8, release pattern (3)", Kind.HAND_OFF,
        "a release fence, then a strong write in program order",
        "operations between the two",
    ),
    Rule(
        "acquire-read", "PTX §8.8, acquire pattern (1)", Kind.HAND_OFF,
        "an acquire read on M ends an acquire pattern: what is after it follows",
        "operations before it; red, which reads nothing",
    ),
    Rule(
        "acquire-read-then-read", "PTX §8.8, acquire pattern (2)", Kind.HAND_OFF,
        "a strong read on M, then an acquire on M in program order",
        "operations between the two",
    ),
    Rule(
        "acquire-fence", "PTX §8.8, acquire pattern (3)", Kind.HAND_OFF,
        "a strong read, then an acquire fence in program order",
        "operations between the two",
    ),
    Rule(
        "synchronizes", "PTX §8.9.4", Kind.HAND_OFF,
        "a release pattern, then an acquire pattern that observes it; its first operation and the "
        "other's last are morally strong",
        "patterns whose scopes do not include each other's thread",
    ),
    Rule(
        "fence-sc-order", "PTX §8.9.3, §8.9.4", Kind.HAND_OFF,
        "morally strong fence.sc are ordered one way or the other, and synchronize that way",
        "fences whose scopes do not include each other's thread",
    ),
    # --- pairs --------------------------------------------------------------------------------
    Rule(
        "pipelined", "PTX §9.7.18.6.2 (9.4)", Kind.PAIR,
        "listed pairs of operands of mma and cp of one warp happen in order in the pipe",
        "completion; shared-memory operands; pairs not in the list", since="9.4",
    ),
    Rule(
        "pipelined-instructions", "PTX §9.7.17.6.2 (to 9.3)", Kind.PAIR,
        "mma → mma of one accumulator and shape, and cp → mma, happen in order in the pipe",
        "completion; shared-memory operands; other pairs", until="9.3",
    ),
    Rule(
        "pipelined-ld-st", "PTX §9.7.18.6.2 (9.4)", Kind.PAIR,
        "st → ld, st → st and ld → st of one warp happen in order",
        "older ISA versions; other warps", since="9.4",
    ),
    Rule(
        "pipelined-cp-overlap", "PTX §9.7.18.6.2 (9.4, pair 7)", Kind.PAIR,
        "cp → mma operand that overlaps but starts elsewhere happen in order (reported as a note)",
        "a strict reading: the text says same address", basis=Basis.INFERRED, since="9.4",
    ),
    Rule(
        "pipelined-in-warp", "PTX §9.7.18.6.4 (9.4)", Kind.PAIR,
        "a listed pair in two threads of one warp, joined by the fences, is in order",
        "different warps", since="9.4",
    ),
    Rule(
        "pipelined-across", "PTX §9.7.17.6.2 (to 9.3)", Kind.PAIR,
        "a listed pair in two threads joined by before_ and after_thread_sync is in order",
        "ISA 9.4: different warps are never pipelined", until="9.3",
    ),
    Rule(
        "proxy-fence", "PTX §9.7.15.4", Kind.PAIR,
        "fence.proxy.async on the path lets order cross between generic and async proxy",
        "spaces it does not name; order between threads",
    ),
    Rule(
        "alias-fence", "PTX §9.7.15.4", Kind.PAIR,
        "fence.proxy.alias on the path lets order cross between virtual addresses of one memory, "
        "after the first access's proxy fence and before the second's",
        "order between threads; accesses through another proxy that have no fence of their own",
        since="7.5",
    ),
    Rule(
        "po-is-causality", "PTX §8.9.5", Kind.PAIR,
        "program order alone is base causality",
        "ISA 6.0, where only paths that synchronize are", since="7.5",
    ),
    Rule(
        "observation", "PTX §8.9.2", Kind.PAIR,
        "a strong write is observed by a morally strong read of its value",
        "weak accesses; scopes that do not include the other thread",
    ),
    Rule(
        "observation-through-atomics", "PTX §8.9.2", Kind.PAIR,
        "observation goes on through atomic operations that read what was observed",
        "plain writes in between, which end it",
    ),
    Rule(
        "proxy-fence-anywhere", "PTX §8.9.5 (no clause for it)", Kind.PAIR,
        "a fence.proxy.async of any thread on the path counts, and async accesses of two CTAs are "
        "in one proxy",
        "a fence that is not on the path", basis=Basis.INFERRED, assumption=FENCE_ANYWHERE,
    ),
    Rule(
        "implicit-proxy-fence", "PTX §9.7.10.28 (async proxy)", Kind.PAIR,
        "who observes a bulk copy's completion may use generic accesses on its bytes",
        "tcgen05 operations",
    ),
    Rule(
        "async-read-done", "PTX §8.6 (practice)", Kind.PAIR,
        "a generic overwrite after an async read that is known to be done needs no proxy fence",
        basis=Basis.PRACTICE, assumption=ASYNC_READ_DONE,
    ),
    Rule(
        "war-without-proxy-fence", "PTX §8.6 (practice)", Kind.PAIR,
        "an async overwrite after a generic read needs no proxy fence",
        basis=Basis.PRACTICE, assumption=WAR_NO_FENCE,
    ),
    Rule(
        "completed-rides", "PTX §9.7.18.6.3", Kind.HAND_OFF,
        "completed tcgen05 work is handed over like generic work",
        basis=Basis.INFERRED, assumption=COMPLETED_RIDES,
    ),
    Rule(
        "before_thread_sync", "PTX §9.7.18.11.1", Kind.HAND_OFF,
        "completed tcgen05 work before the fence may ride a relaxed arrive",
        "completion of anything",
    ),
    Rule(
        "own-effects", "PTX §9.7.15.16.12", Kind.HAND_OFF,
        "an operation's own effects reach any acquire waiter",
        "anything but its own effects", basis=Basis.INFERRED, assumption=OWN_EFFECTS,
    ),
    Rule(
        "cta-spans-cluster", "PTX §8.7 (not granted)", Kind.HAND_OFF,
        ".cta arrives and waits synchronize CTAs of one cluster",
        basis=Basis.PRACTICE, assumption=CTA_SPANS_CLUSTER,
    ),
)  # fmt: skip


class RuleTable:
    """The rows by name, and which of them apply in a reading. Tests remove or replace rows."""

    def __init__(self, rules: Iterable[Rule] = _TABLE) -> None:
        self.rules = {rule.name: rule for rule in rules}
        self._names: dict[Reading, frozenset[str]] = {}

    def without(self, *names: str) -> RuleTable:
        return RuleTable(rule for rule in self.rules.values() if rule.name not in names)

    def replacing(self, *changed: Rule) -> RuleTable:
        return RuleTable({**self.rules, **{rule.name: rule for rule in changed}}.values())

    def __getitem__(self, name: str) -> Rule:
        return self.rules[name]

    def active(self, reading: Reading, kind: Kind) -> list[Rule]:
        return [r for r in self.rules.values() if r.kind is kind and r.applies(reading)]

    def names(self, reading: Reading) -> frozenset[str]:
        """The rules that apply in a reading."""
        if reading not in self._names:
            granted = (name for name, rule in self.rules.items() if rule.applies(reading))
            self._names[reading] = frozenset(granted)
        return self._names[reading]


TABLE = RuleTable()
