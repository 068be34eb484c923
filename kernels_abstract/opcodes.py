"""What an instruction of the kernel language means: PTX name and operands -> model instruction.

A lowering is called once for each instruction of the text. It checks the operands and returns a
`Build`, which is called for each agent with the values of the operands' expressions. To add an
instruction, write its lowering and its row in `TABLE`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..model import instructions as model
from ..model.instructions import Scope, Sem, Signal
from ..model.program import Space
from . import expressions, syntax
from .layout import MOST_ARRIVALS, Layout
from .operands import SPACES, WARP, Form, Getter, Place, Values
from .strand import Strand
from .suggest import suggestion
from .syntax import Position

Build = Callable[[Strand, Values], model.Instruction]
Lower = Callable[[Form], Build]

NAMED_BARRIERS = 16


@dataclass(frozen=True)
class Opcode:
    """`usage` shows the operands; `modifiers` is a pattern for what may follow the name."""

    name: str
    lower: Lower
    usage: str
    modifiers: str = ""

    def accepts(self, modifier: str) -> bool:
        return re.fullmatch(self.modifiers, modifier) is not None if self.modifiers else False


# --- generic memory -------------------------------------------------------------------------------


def lower_load(form: Form) -> Build:
    """`ld r <- A[i]`; each lane of a warp loads its own part."""
    place, registers = destination_first(form)
    form.check_space(place.array.space)
    sem, scope = form.order((Sem.WEAK, Scope.CTA))
    register = registers[0] if registers else ""
    return lambda strand, values: model.Load(
        place.one(strand, values, strand.lanes > 1), register, sem, scope
    )


def destination_first(form: Form) -> tuple[Place, tuple[str, ...]]:
    """`r <- place`, or `place` alone when the value does not matter."""
    if form.node.right is None:
        form.operands(1)
        return form.place(form.node.left[0], Space.SHARED, Space.GLOBAL), ()
    form.operands(1, 1)
    registers = form.writes(form.node.left)
    return form.place(form.node.right[0], Space.SHARED, Space.GLOBAL), registers


def lower_store(form: Form) -> Build:
    """`st A[i] <- r`, `st A[i] <- 1` (a constant) or `st A[i]`."""
    form.operands(1, range(17))
    place = form.place(form.node.left[0], Space.SHARED, Space.GLOBAL)
    form.check_space(place.array.space)
    sem, scope = form.order((Sem.WEAK, Scope.CTA))
    sources = form.node.right or ()
    if len(sources) == 1 and not isinstance(sources[0], syntax.Name):
        stored = form.index(sources[0])
        return lambda strand, values: model.Store(
            place.one(strand, values, strand.lanes > 1), (), sem, scope, str(stored(values))
        )
    registers = form.reads(sources)
    return lambda strand, values: model.Store(
        place.one(strand, values, strand.lanes > 1), registers, sem, scope
    )


def lower_atomic(form: Form) -> Build:
    """`atom r <- A[i], s`."""
    form.operands(1, range(1, 4))
    register = form.writes(form.node.left)[0]
    operands = form.node.right or ()
    return atomic(form, operands[0], operands[1:], register)


def lower_reduction(form: Form) -> Build:
    """`red A[i] <- r`."""
    form.operands(1, range(2))
    return atomic(form, form.node.left[0], form.node.right or (), "")


def atomic(
    form: Form,
    node: syntax.Expression,
    sources: tuple[syntax.Expression, ...],
    register: str,
) -> Build:
    place = form.place(node, Space.SHARED, Space.GLOBAL)
    form.check_space(place.array.space)
    sem, scope = form.order((Sem.RELAXED, Scope.GPU), scope_alone=True)
    registers = form.reads(tuple(each for each in sources if isinstance(each, syntax.Name)))
    return lambda strand, values: model.Atomic(
        place.one(strand, values), register, registers, sem, scope
    )


def lower_fence(form: Form) -> Build:
    form.operands(0)
    if not form.modifiers:
        raise form.error("it needs semantics and a scope")
    sem, scope = form.order((Sem.ACQ_REL, Scope.CTA))
    return shared(model.Fence(sem, scope))


def lower_proxy_fence(form: Form) -> Build:
    form.operands(0)
    space = next((SPACES[m.split("::")[0]] for m in form.modifiers), None)
    return shared(model.FenceProxyAsync(space))


def shared(instruction: model.Instruction) -> Build:
    """The same instruction for every agent."""
    return lambda strand, values: instruction


def lower_fixed(instruction: model.Instruction, form: Form) -> Build:
    """An instruction without operands."""
    form.operands(0)
    return shared(instruction)


def lower_use(form: Form) -> Build:
    form.operands(range(1, 17))
    return shared(model.Use(form.reads(form.node.left), form.name))


# --- mbarrier -------------------------------------------------------------------------------------


def lower_init(form: Form) -> Build:
    form.operands(2)
    target = form.target(form.node.left[0])
    if target.group.objects[0][0].count is not None:
        raise form.position.error(
            f"`{target.group.name}` is initialised already; declare it `uninitialized`"
        )
    count = form.number(form.node.left[1], 1, MOST_ARRIVALS)
    return lambda strand, values: model.MbarrierInit(target.one(strand, values), count(values))


def lower_inval(form: Form) -> Build:
    form.operands(1)
    target = form.target(form.node.left[0])
    return lambda strand, values: model.MbarrierInval(target.one(strand, values))


def lower_arrive(form: Form) -> Build:
    form.operands(range(1, 3))
    target = form.target(form.node.left[0])
    more = form.node.left[1:]
    count: Getter = form.number(more[0], 1, MOST_ARRIVALS) if more else lambda values: 1
    sem, scope = form.order((Sem.RELEASE, Scope.CTA))
    return lambda strand, values: model.MbarrierArrive(
        target.one(strand, values), count(values), sem=sem, scope=scope
    )


def lower_arrive_expect(form: Form) -> Build:
    form.operands(2)
    target = form.target(form.node.left[0])
    expected = form.number(form.node.left[1], 1, MOST_ARRIVALS)
    sem, scope = form.order((Sem.RELEASE, Scope.CTA))
    return lambda strand, values: model.MbarrierArrive(
        target.one(strand, values), 1, expected(values), sem=sem, scope=scope
    )


def lower_expect(form: Form) -> Build:
    form.operands(2)
    target = form.target(form.node.left[0])
    expected = form.number(form.node.left[1], 1, MOST_ARRIVALS)
    _, scope = form.order((Sem.RELAXED, Scope.CTA))
    return lambda strand, values: model.MbarrierArrive(
        target.one(strand, values), 0, expected(values), sem=Sem.RELAXED, scope=scope
    )


def lower_complete(form: Form) -> Build:
    form.operands(2)
    target = form.target(form.node.left[0])
    completed = form.number(form.node.left[1], 1, MOST_ARRIVALS)
    _, scope = form.order((Sem.RELAXED, Scope.CTA))
    return lambda strand, values: model.MbarrierArrive(
        target.one(strand, values), 0, 0, completed(values), sem=Sem.RELAXED, scope=scope
    )


def lower_try_wait(form: Form) -> Build:
    form.operands(2)
    target = form.target(form.node.left[0])
    parity = form.number(form.node.left[1], 0, 1)
    sem, scope = form.order((Sem.ACQUIRE, Scope.CTA))
    return lambda strand, values: model.MbarrierTryWait(
        target.local(strand, values), parity(values), sem, scope
    )


# --- execution barriers ---------------------------------------------------------------------------


def lower_bar(waits: bool, form: Form) -> Build:
    """`bar.sync id, threads`; without `threads`, all threads of the CTA."""
    form.operands(range(1, 3))
    number = form.number(form.node.left[0], 0, NAMED_BARRIERS - 1)
    threads = form.number(form.node.left[1], 1) if len(form.node.left) > 1 else None
    return lambda strand, values: model.Bar(
        number(values),
        strand.cta_threads if threads is None else threads(values),
        waits,
        everyone=threads is None,
    )


def lower_warp_sync(form: Form) -> Build:
    form.operands(0)
    return lambda strand, values: model.BarWarpSync()


def lower_cluster_arrive(form: Form) -> Build:
    form.operands(0)
    sem, _ = form.order((Sem.RELEASE, Scope.CLUSTER), scope_alone=True)
    return shared(model.ClusterArrive(sem))


# --- asynchronous copies --------------------------------------------------------------------------


def lower_cp_async(form: Form) -> Build:
    form.operands(1, range(2))
    destination = form.place(form.node.left[0], Space.SHARED)
    source = form.place(form.node.right[0], Space.GLOBAL) if form.node.right else None
    return lambda strand, values: model.CpAsync(
        destination.one(strand, values, strand.lanes > 1),
        None if source is None else source.one(strand, values, strand.lanes > 1),
    )


def lower_cp_async_wait(form: Form) -> Build:
    form.operands(1)
    pending = form.number(form.node.left[0])
    return lambda strand, values: model.CpAsyncWaitGroup(pending(values))


def lower_cp_async_arrive(form: Form) -> Build:
    form.operands(1)
    target = form.target(form.node.left[0])
    noinc = "noinc" in form.modifiers
    return lambda strand, values: model.CpAsyncMbarrierArrive(
        target.one(strand, values), noinc, strand.lanes
    )


def lower_bulk(form: Form) -> Build:
    """`... A[i] <- G[j] mbarrier b bytes n` loads; `... G[j] <- A[i]` stores, in a bulk group."""
    form.operands(1, range(2))
    clauses = form.clauses("mbarrier", "bytes")
    source = form.place(form.node.right[0]) if form.node.right else None
    if not clauses:
        destination = form.place(form.node.left[0], Space.GLOBAL)
        if source is None or source.array.space is not Space.SHARED:
            raise form.error("a store needs its source in shared memory")
        read: Place = source
        return lambda strand, values: model.BulkCopy(
            destination.regions(strand, values), read.regions(strand, values)
        )
    if clauses.keys() != {"mbarrier", "bytes"}:
        raise form.error("a load needs `mbarrier b bytes n`")
    return bulk_load(form, source, clauses)


def bulk_load(form: Form, source: Place | None, clauses: dict[str, syntax.Expression]) -> Build:
    destination = form.place(form.node.left[0], Space.SHARED)
    target = form.target(clauses["mbarrier"])
    count = form.number(clauses["bytes"], 1, MOST_ARRIVALS)

    def build(strand: Strand, values: Values) -> model.Instruction:
        written = destination.regions(strand, values)
        read = () if source is None else source.regions(strand, values)
        barriers = target.barriers(strand, values)
        if len(barriers) not in (1, len(written)):
            raise form.error("a multicast load signals one mbarrier, or one a destination")
        own = len(barriers) > 1
        sources = range(len(written), len(written) + len(read))
        signals = tuple(
            Signal(barrier, bytes=count(values), accesses=(place, *sources) if own else None)
            for place, barrier in enumerate(barriers)
        )
        return model.BulkCopy(written, read, signals)

    return build


def lower_bulk_wait(form: Form) -> Build:
    form.operands(1)
    pending = form.number(form.node.left[0])
    read = "read" in form.modifiers
    return lambda strand, values: model.BulkWaitGroup(pending(values), read)


def lower_st_async(form: Form) -> Build:
    """`st.async A[i] mbarrier b bytes n`. The model does not follow what it stores."""
    form.operands(1)
    clauses = form.clauses("mbarrier", "bytes")
    if clauses.keys() != {"mbarrier", "bytes"}:
        raise form.error("it needs `mbarrier b bytes n`")
    destination = form.place(form.node.left[0], Space.SHARED)
    target = form.target(clauses["mbarrier"])
    count = form.number(clauses["bytes"], 1, MOST_ARRIVALS)

    def build(strand: Strand, values: Values) -> model.Instruction:
        written = destination.one(strand, values, strand.lanes > 1)
        barrier = target.one(strand, values)
        if barrier.cta != written.cta:
            raise form.error("the mbarrier is in the CTA of the destination")
        return model.StAsync(written, Signal(barrier, bytes=count(values)))

    return build


# --- wgmma ----------------------------------------------------------------------------------------


def lower_wgmma(form: Form) -> Build:
    """`wgmma.mma_async A, B`, both in shared memory; D is in registers."""
    form.operands(2)
    a, b = (form.place(operand, Space.SHARED) for operand in form.node.left)

    def build(strand: Strand, values: Values) -> model.Instruction:
        if strand.lanes != WARP:
            raise form.error("whole warps execute it")
        return model.WgmmaMma(a.one(strand, values), b.one(strand, values))

    return build


def lower_wgmma_wait(form: Form) -> Build:
    form.operands(1)
    pending = form.number(form.node.left[0])
    return lambda strand, values: model.WgmmaWaitGroup(pending(values))


# --- tcgen05 --------------------------------------------------------------------------------------


def lower_tmem_load(form: Form) -> Build:
    if form.node.right is None:
        form.operands(1)
        place, register = form.place(form.node.left[0], Space.TMEM), ""
    else:
        form.operands(1, 1)
        register = form.writes(form.node.left)[0]
        place = form.place(form.node.right[0], Space.TMEM)
    return lambda strand, values: model.Tcgen05Ld(place.quarter(strand, values), register)


def lower_tmem_store(form: Form) -> Build:
    form.operands(1, range(17))
    place = form.place(form.node.left[0], Space.TMEM)
    registers = form.reads(form.node.right)
    return lambda strand, values: model.Tcgen05St(place.quarter(strand, values), registers)


def lower_tmem_copy(form: Form) -> Build:
    form.operands(1, range(2))
    destination = form.place(form.node.left[0], Space.TMEM)
    source = form.place(form.node.right[0], Space.SHARED) if form.node.right else None
    wide = any(modifier.startswith("4x256b") for modifier in form.modifiers)
    group = form.cta_group

    def build(strand: Strand, values: Values) -> model.Instruction:
        to = destination.pair(strand, values, group)
        of = source.pair(strand, values, group) if source else ()
        peer = (to[1], of[1] if len(of) > 1 else None) if len(to) > 1 else None
        return model.Tcgen05Cp(to[0], of[0] if of else None, group, wide, peer)

    return build


def lower_mma(form: Form) -> Build:
    """`tcgen05.mma D, A, B, accumulate`: with accumulate 0, D is written without being read."""
    form.operands(range(3, 5))
    clauses = form.clauses("idesc")
    d = form.place(form.node.left[0], Space.TMEM)
    a = form.place(form.node.left[1], Space.TMEM, Space.SHARED)
    b = form.place(form.node.left[2], Space.SHARED)
    more = form.node.left[3:]
    accumulate: Getter = form.number(more[0], 0, 1) if more else lambda values: 1
    group = form.cta_group
    kind = next((m[6:] for m in form.modifiers if m.startswith("kind::")), "f16")
    shape = form.register(clauses["idesc"]) if clauses else ""
    return lambda strand, values: model.Tcgen05Mma(
        d.pair(strand, values, group),
        a.pair(strand, values, group),
        b.pair(strand, values, group),
        bool(accumulate(values)),
        group,
        shape,
        kind,
    )


def lower_commit(form: Form) -> Build:
    form.operands(1)
    target = form.target(form.node.left[0])
    group = form.cta_group
    return lambda strand, values: model.Tcgen05Commit(target.barriers(strand, values), group)


def lower_alloc(form: Form) -> Build:
    form.operands(range(1, 3))
    columns = form.place(form.node.left[0], Space.TMEM)
    more = form.node.left[1:]
    address = form.place(more[0], Space.SHARED) if more else None
    return lambda strand, values: model.Tcgen05Alloc(
        columns.whole(strand, values), None if address is None else address.one(strand, values)
    )


def lower_dealloc(form: Form) -> Build:
    form.operands(1)
    columns = form.place(form.node.left[0], Space.TMEM)
    return lambda strand, values: model.Tcgen05Dealloc(columns.whole(strand, values))


# --- the table ------------------------------------------------------------------------------------

_TYPES = r"v[248]|[bsuf](8|16|32|64)|bf16|f16x2|bf16x2"
_SPACE = r"shared(::cta|::cluster)?|global"
_SCOPE = "cta|cluster|gpu|sys"
_MBAR = r"shared(::cta|::cluster)?|b64"
_COLLECTIVE = r"sync|aligned"
_GROUP = r"cta_group::[12]"
_MOVE = rf"{_COLLECTIVE}|\d+x\d+b|x\d+|b32|pack::16b|unpack::16b"
_ATOM = (
    rf"relaxed|acquire|release|acq_rel|{_SCOPE}|{_SPACE}|{_TYPES}|"
    "add|min|max|inc|dec|and|or|xor|exch|cas"
)
_BULK = (
    rf"[1-5]d|tensor|{_SPACE}|tile|im2col|bulk_group|mbarrier::complete_tx::bytes|"
    rf"multicast::cluster|{_GROUP}"
)

_OPCODES = (
    Opcode("ld", lower_load, "ld r <- array[i]",
           rf"weak|relaxed|acquire|nc|{_SCOPE}|{_SPACE}|{_TYPES}"),
    Opcode("st", lower_store, "st array[i] <- r",
           rf"weak|relaxed|release|{_SCOPE}|{_SPACE}|{_TYPES}"),
    Opcode("atom", lower_atomic, "atom r <- array[i], s", _ATOM),
    Opcode("red", lower_reduction, "red array[i] <- r", _ATOM),
    Opcode("fence", lower_fence, "fence.acq_rel.gpu", rf"acq_rel|acquire|release|sc|{_SCOPE}"),
    Opcode("fence.proxy.async", lower_proxy_fence, "fence.proxy.async", _SPACE),
    Opcode("fence.mbarrier_init", partial(lower_fixed, model.FenceMbarrierInit()),
           "fence.mbarrier_init.release.cluster", "release|cluster"),
    Opcode("vote", lower_use, "vote r", r"sync|all|any|uni|ballot|pred|b32"),
    Opcode("shfl", lower_use, "shfl r", r"sync|up|down|bfly|idx|b32"),
    Opcode("use", lower_use, "use r"),
    Opcode("mbarrier.init", lower_init, "mbarrier.init b, count", _MBAR),
    Opcode("mbarrier.inval", lower_inval, "mbarrier.inval b", _MBAR),
    Opcode("mbarrier.arrive", lower_arrive, "mbarrier.arrive b",
           rf"release|relaxed|{_SCOPE}|{_MBAR}"),
    Opcode("mbarrier.arrive.expect_tx", lower_arrive_expect, "mbarrier.arrive.expect_tx b, bytes",
           rf"release|relaxed|{_SCOPE}|{_MBAR}"),
    Opcode("mbarrier.expect_tx", lower_expect, "mbarrier.expect_tx b, bytes",
           rf"relaxed|{_SCOPE}|{_MBAR}"),
    Opcode("mbarrier.complete_tx", lower_complete, "mbarrier.complete_tx b, bytes",
           rf"relaxed|{_SCOPE}|{_MBAR}"),
    Opcode("mbarrier.try_wait.parity", lower_try_wait, "mbarrier.try_wait.parity b, parity",
           rf"acquire|relaxed|{_SCOPE}|{_MBAR}"),
    Opcode("bar.sync", partial(lower_bar, True), "bar.sync id, threads"),
    Opcode("bar.arrive", partial(lower_bar, False), "bar.arrive id, threads"),
    Opcode("bar.warp.sync", lower_warp_sync, "bar.warp.sync"),
    Opcode("barrier.cluster.arrive", lower_cluster_arrive, "barrier.cluster.arrive",
           "release|relaxed|aligned"),
    Opcode("barrier.cluster.wait", partial(lower_fixed, model.ClusterWait()),
           "barrier.cluster.wait", "acquire|aligned"),
    Opcode("cp.async", lower_cp_async, "cp.async array[i] <- source[j]", rf"ca|cg|{_SPACE}"),
    Opcode("cp.async.commit_group", partial(lower_fixed, model.CpAsyncCommitGroup()),
           "cp.async.commit_group"),
    Opcode("cp.async.wait_group", lower_cp_async_wait, "cp.async.wait_group n"),
    Opcode("cp.async.wait_all", partial(lower_fixed, model.CpAsyncWaitGroup(None)),
           "cp.async.wait_all"),
    Opcode("cp.async.mbarrier.arrive", lower_cp_async_arrive, "cp.async.mbarrier.arrive b",
           rf"noinc|{_MBAR}"),
    Opcode("cp.async.bulk", lower_bulk, "cp.async.bulk.tensor array[i] mbarrier b bytes n", _BULK),
    Opcode("cp.async.bulk.commit_group", partial(lower_fixed, model.BulkCommitGroup()),
           "cp.async.bulk.commit_group"),
    Opcode("cp.async.bulk.wait_group", lower_bulk_wait, "cp.async.bulk.wait_group n", "read"),
    Opcode("st.async", lower_st_async, "st.async array[i] mbarrier b bytes n",
           rf"weak|{_SPACE}|mbarrier::complete_tx::bytes|{_TYPES}"),
    Opcode("wgmma.fence", partial(lower_fixed, model.WgmmaFence()), "wgmma.fence", _COLLECTIVE),
    Opcode("wgmma.mma_async", lower_wgmma, "wgmma.mma_async a, b",
           rf"{_COLLECTIVE}|sp|m64n\d+k\d+|tf32|e[45]m[32]|b1|[us]8|{_TYPES}"),
    Opcode("wgmma.commit_group", partial(lower_fixed, model.WgmmaCommitGroup()),
           "wgmma.commit_group", _COLLECTIVE),
    Opcode("wgmma.wait_group", lower_wgmma_wait, "wgmma.wait_group n", _COLLECTIVE),
    Opcode("tcgen05.alloc", lower_alloc, "tcgen05.alloc array, address_word",
           rf"{_COLLECTIVE}|{_GROUP}|{_MBAR}|b32"),
    Opcode("tcgen05.dealloc", lower_dealloc, "tcgen05.dealloc array",
           rf"{_COLLECTIVE}|{_GROUP}|b32"),
    Opcode("tcgen05.ld", lower_tmem_load, "tcgen05.ld r <- array[i]", _MOVE),
    Opcode("tcgen05.st", lower_tmem_store, "tcgen05.st array[i] <- r", _MOVE),
    Opcode("tcgen05.cp", lower_tmem_copy, "tcgen05.cp array[i] <- source[j]",
           rf"{_GROUP}|\d+x\d+b|warpx\d+(::\d+)*"),
    Opcode("tcgen05.mma", lower_mma, "tcgen05.mma d, a, b, accumulate",
           rf"{_GROUP}|kind::[a-z0-9]+"),
    Opcode("tcgen05.commit", lower_commit, "tcgen05.commit b",
           rf"{_GROUP}|mbarrier::arrive::one|multicast::cluster|{_MBAR}"),
    Opcode("tcgen05.wait::ld", partial(lower_fixed, model.Tcgen05Wait(False)),
           "tcgen05.wait::ld", _COLLECTIVE),
    Opcode("tcgen05.wait::st", partial(lower_fixed, model.Tcgen05Wait(True)),
           "tcgen05.wait::st", _COLLECTIVE),
    Opcode("tcgen05.fence::before_thread_sync", partial(lower_fixed, model.Tcgen05Fence(False)),
           "tcgen05.fence::before_thread_sync"),
    Opcode("tcgen05.fence::after_thread_sync", partial(lower_fixed, model.Tcgen05Fence(True)),
           "tcgen05.fence::after_thread_sync"),
)  # fmt: skip
TABLE = {opcode.name: opcode for opcode in _OPCODES}


def find_opcode(text: str, position: Position) -> tuple[Opcode, tuple[str, ...]]:
    """The opcode with the longest name that `text` starts with, and the modifiers after it."""
    parts = text.split(".")
    for length in range(len(parts), 0, -1):
        opcode = TABLE.get(".".join(parts[:length]))
        if opcode is None:
            continue
        modifiers = tuple(parts[length:])
        for modifier in modifiers:
            if not opcode.accepts(modifier):
                near = suggestion(text, TABLE.keys() - {opcode.name})
                raise position.error(f"{opcode.name} has no modifier `.{modifier}`{near}")
        return opcode, modifiers
    hint = suggestion(text, TABLE) or "; docs/kernel-language.md lists them"
    raise position.error(f"no instruction is named `{text}`{hint}")


def lower(node: syntax.Instruction, scope: expressions.Scope, layout: Layout) -> tuple[Form, Build]:
    """The instruction's form (what it needs at run time) and how to build it."""
    opcode, modifiers = find_opcode(node.opcode, node.position)
    form = Form(node, opcode.name, opcode.usage, modifiers, scope, layout)
    if opcode.lower not in (lower_bulk, lower_st_async, lower_mma):
        form.clauses()
    return form, opcode.lower(form)
