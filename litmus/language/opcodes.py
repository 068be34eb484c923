"""The instructions of the litmus language, one row an opcode. To add an instruction, add a row.

A row says the name, the operands (letters of `form.LEGEND`; what stands in brackets may be left
out), what the instruction becomes, its semantics and scopes, and its other modifiers. Type suffixes
and words like `.aligned` are accepted where PTX has them and mean nothing: every value is a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial

from ...model import instructions as ins
from ...model.instructions import Proxy, Scope, Sem
from ...model.suggest import suggestion
from . import lowering as low
from . import lowering_async as late
from .form import Form, Opcode, Use
from .modifiers import SCOPES, SEMANTICS, Illegal, Order, dotted, unknown_modifier

__all__ = ["ROWS", "TABLE", "Form", "Use", "use_of"]

TYPES = tuple(f"{letter}{bits}" for letter in "usb" for bits in (8, 16, 32, 64, 128)) + (
    "f16", "f32", "f64", "bf16", "tf32",
)  # fmt: skip
SPACES = ("global", "shared", "shared::cta", "shared::cluster")
MEMORY = (*TYPES, *SPACES)
COLLECTIVE = ("sync", "aligned")
OPERATIONS = ("add", "sub", "mul", "div", "and", "or", "xor", "min", "max")
TCGEN05 = (*COLLECTIVE, "cta_group::1", "cta_group::2")
SHARED_OBJECT = ("shared", "shared::cta", "shared::cluster", "b64")
COMPLETE_TX = "mbarrier::complete_tx::bytes"
BRANCHES = ("eq", "ne", "lt", "le", "gt", "ge")

LOADS = Order(("weak", "volatile", "relaxed", "acquire", "mmio"))
STORES = Order(("weak", "volatile", "relaxed", "release", "mmio"))
ATOMICS = Order(
    ("relaxed", "acquire", "release", "acq_rel"), Sem.RELAXED, Scope.GPU, scope_alone=True
)
REDUCTIONS = ATOMICS
FENCES = Order(
    ("acq_rel", "sc", "acquire", "release"), Sem.ACQ_REL, scope_alone=True, required=True
)
NEAR = ("cta", "cluster")
ARRIVALS = Order(("release", "relaxed"), Sem.RELEASE, Scope.CTA, NEAR, scope_alone=True)
WAITS = Order(("acquire", "relaxed"), Sem.ACQUIRE, Scope.CTA, NEAR, scope_alone=True)
TRANSACTIONS = Order(("relaxed",), Sem.RELAXED, Scope.CTA, NEAR, scope_alone=True)
CLUSTER_ARRIVE = Order(("release", "relaxed"), Sem.RELEASE, Scope.CLUSTER, ())
CLUSTER_WAIT = Order(("acquire", "relaxed"), Sem.ACQUIRE, Scope.CLUSTER, ())
WEAK = Order(("weak",))
RELAXED_CLUSTER = Order(("relaxed",), Sem.RELAXED, Scope.CLUSTER, ("cluster",), scope_alone=True)


def fixed(instruction: ins.Instruction) -> low.Lower:
    return partial(low.lower_fixed, instruction=instruction)


def registers() -> Iterable[Opcode]:
    """Moves, arithmetic and branches: no events of the memory model (§9.7)."""
    section = "PTX §9.7"
    yield Opcode("mov", "r, v", low.lower_move, words=TYPES, section=section)
    for name in OPERATIONS:
        lower = partial(low.lower_arithmetic, function=name)
        words = (*TYPES, "lo") if name == "mul" else TYPES
        yield Opcode(name, "r, v, v", lower, words=words, section=section)
    for name in BRANCHES:
        lower = partial(low.lower_branch, comparison=name)
        yield Opcode(f"b{name}", "v, v, l", lower, section=section)
    yield Opcode("goto", "l", low.lower_goto, section=section)


def memory() -> Iterable[Opcode]:
    """Loads, stores and atomics by each proxy (§9.7.10, §9.7.15, and §8.6 for the proxies)."""
    proxies = {"": Proxy.GENERIC, "su": Proxy.SURFACE}
    readers = {"suld": Proxy.SURFACE, "tld": Proxy.TEXTURE, "cold": Proxy.CONSTANT}
    yield Opcode("ld", "r, y", low.lower_load_or_move, LOADS, MEMORY, section="PTX §9.7.10")
    for name, proxy in readers.items():
        lower = partial(low.lower_load, proxy=proxy)
        yield Opcode(name, "r, x", lower, LOADS, MEMORY, section="PTX §8.6")
    for prefix, proxy in proxies.items():
        store = partial(low.lower_store, proxy=proxy)
        atom = partial(low.lower_atomic, proxy=proxy)
        red = partial(low.lower_reduction, proxy=proxy)
        every = (*OPERATIONS, "exch", "cas")
        yield Opcode(f"{prefix}st", "x, v", store, STORES, MEMORY, section="PTX §9.7.10")
        yield Opcode(f"{prefix}atom", "r, x, v[, v]", atom, ATOMICS, MEMORY, every, "PTX §9.7.15")
        yield Opcode(f"{prefix}red", "x, v", red, REDUCTIONS, MEMORY, OPERATIONS, "PTX §9.7.15")


def fences() -> Iterable[Opcode]:
    section = "PTX §9.7.15.4"
    kinds = ("generic", "surface", "texture", "constant", "alias")
    async_spaces = ("global", "shared::cta", "shared::cluster")
    yield Opcode("fence", "", low.lower_fence, FENCES, section=section)
    yield Opcode("membar", "", low.lower_membar, choices=("cta", "gl", "sys"), section=section)
    yield Opcode("fence.proxy", "", low.lower_proxy_fence, choices=kinds, section=section)
    yield Opcode(
        "fence.proxy.async", "", low.lower_async_fence, words=async_spaces, section=section
    )
    yield Opcode(
        "fence.mbarrier_init.release.cluster", "", fixed(ins.FenceMbarrierInit()), section=section
    )


def barriers() -> Iterable[Opcode]:
    """`bar.cta` is the peers' barrier; the others are PTX's (§9.7.15.1-3)."""
    for verb, waits in (("sync", True), ("arrive", False)):
        instance = partial(low.lower_instance, waits=waits)
        named = partial(low.lower_barrier, waits=waits)
        operands = "v[, v]" if waits else "v, v"
        section = "PTX §9.7.15.1"
        yield Opcode(f"bar.cta.{verb}", "n[, v, v]", instance, section=section)
        for name in (f"bar.{verb}", f"barrier.{verb}", f"barrier.cta.{verb}"):
            yield Opcode(name, operands, named, words=("aligned",), section=section)
    yield Opcode("bar.warp.sync", "[v]", low.lower_warp_barrier, section="PTX §9.7.15.2")
    for name, lower, order in (
        ("arrive", low.lower_cluster_arrive, CLUSTER_ARRIVE),
        ("wait", low.lower_cluster_wait, CLUSTER_WAIT),
    ):
        yield Opcode(
            f"barrier.cluster.{name}", "", lower, order, ("aligned",), section="PTX §9.7.15.3"
        )


def mbarriers() -> Iterable[Opcode]:
    section, words = "PTX §9.7.15.16", SHARED_OBJECT
    for name, operands, lower, order in (
        ("init", "b, n", late.lower_init, None),
        ("inval", "b", late.lower_inval, None),
        ("arrive", "b[, n]", late.lower_arrive, ARRIVALS),
        ("arrive.expect_tx", "b, n", late.lower_arrive_expect, ARRIVALS),
        ("expect_tx", "b, n", late.lower_expect, TRANSACTIONS),
        ("complete_tx", "b, n", late.lower_complete, TRANSACTIONS),
        ("try_wait.parity", "b, v", late.lower_try_wait, WAITS),
        ("test_wait.parity", "r, b, v", late.lower_test_wait, WAITS),
    ):
        order = order or Order((), scopes=())
        yield Opcode(f"mbarrier.{name}", operands, lower, order, words, section=section)


def copies() -> Iterable[Opcode]:
    """cp.async and the bulk copies (§9.7.10.28), st.async and red.async (§9.7.10)."""
    section = "PTX §9.7.10.28"
    yield Opcode(
        "cp.async", "s, g", late.lower_cp_async,
        words=("ca", "cg", "shared", "shared::cta", "global"), section=section,
    )  # fmt: skip
    yield Opcode("cp.async.commit_group", "", fixed(ins.CpAsyncCommitGroup()), section=section)
    yield Opcode("cp.async.wait_group", "n", late.lower_wait_group, section=section)
    yield Opcode("cp.async.wait_all", "", fixed(ins.CpAsyncWaitGroup(None)), section=section)
    yield Opcode(
        "cp.async.mbarrier.arrive", "b", late.lower_cp_async_arrive,
        words=("noinc", *SHARED_OBJECT), section="PTX §9.7.15.16",
    )  # fmt: skip
    dimensions = tuple(f"{n}d" for n in range(1, 6))
    yield Opcode(
        "cp.async.bulk", "m, m[, b]", late.lower_bulk,
        words=("tensor", *dimensions, "tile", *SPACES, COMPLETE_TX, "bulk_group"), section=section,
    )  # fmt: skip
    yield Opcode("cp.async.bulk.commit_group", "", fixed(ins.BulkCommitGroup()), section=section)
    yield Opcode(
        "cp.async.bulk.wait_group", "n", late.lower_bulk_wait, words=("read",), section=section
    )
    words = (*TYPES, "shared::cluster", COMPLETE_TX)
    reductions = ("add", "min", "max", "and", "or", "xor")
    section = "PTX §9.7.10"
    yield Opcode("st.async", "s, v, b", late.lower_st_async, WEAK, words, section=section)
    yield Opcode(
        "red.async", "s, v, b", late.lower_red_async, RELAXED_CLUSTER, words, reductions, section
    )


def wgmma() -> Iterable[Opcode]:
    section = "PTX §9.7.17"
    yield Opcode("wgmma.fence", "", fixed(ins.WgmmaFence()), words=COLLECTIVE, section=section)
    yield Opcode(
        "wgmma.mma_async", "r, s, s", late.lower_wgmma,
        words=(*COLLECTIVE, *TYPES, "m64n*"), section=section,
    )  # fmt: skip
    yield Opcode(
        "wgmma.commit_group", "", fixed(ins.WgmmaCommitGroup()), words=COLLECTIVE, section=section
    )
    yield Opcode("wgmma.wait_group", "n", late.lower_wgmma_wait, words=COLLECTIVE, section=section)


def tcgen05() -> Iterable[Opcode]:
    section = "PTX §9.7.18"
    shapes = ("32x32b", "16x64b", "16x128b", "16x256b", *(f"x{2**n}" for n in range(8)))
    copied = ("128x256b", "4x256b", "128x128b", "64x128b", "32x128b", "warpx4", "warpx2::*")
    one_way = ("mbarrier::arrive::one", *SHARED_OBJECT)
    for name, operands, lower, words in (
        ("alloc", "t[, s]", late.lower_alloc, ("shared::cta", "b32")),
        ("dealloc", "t", late.lower_dealloc, ("b32",)),
        ("ld", "r, t", late.lower_tmem_load, (*shapes, "b32")),
        ("st", "t, v", late.lower_tmem_store, (*shapes, "b32")),
        ("cp", "t, s", late.lower_tmem_copy, copied),
        ("mma", "t[, a, s, n]", late.lower_mma, ("kind::*", "shape::*")),
        ("commit", "b[, b...]", late.lower_commit, one_way),
        ("wait::ld", "", fixed(ins.Tcgen05Wait(False)), ()),
        ("wait::st", "", fixed(ins.Tcgen05Wait(True)), ()),
        ("fence::before_thread_sync", "", fixed(ins.Tcgen05Fence(False)), ()),
        ("fence::after_thread_sync", "", fixed(ins.Tcgen05Fence(True)), ()),
    ):
        groups = ("alloc", "dealloc", "cp", "mma", "commit")
        general = TCGEN05 if name in groups else () if "fence" in name else COLLECTIVE
        yield Opcode(f"tcgen05.{name}", operands, lower, words=(*general, *words), section=section)


FAMILIES = (registers, memory, fences, barriers, mbarriers, copies, wgmma, tcgen05)
ROWS = tuple(row for family in FAMILIES for row in family())
TABLE = {row.name: row for row in ROWS}


# --- finding the row ------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def use_of(opcode: str) -> Use:
    """The row of the longest name that `opcode` starts with, and what its modifiers say."""
    words = opcode.split(".")
    for length in range(len(words), 0, -1):
        row = TABLE.get(".".join(words[:length]))
        if row is not None:
            return matched(row, opcode, tuple(words[length:]))
    raise Illegal(f"unknown opcode `{opcode[:60]}`{suggestion(opcode, TABLE) or known_opcodes()}")


def known_opcodes() -> str:
    return f"; known: {', '.join(dict.fromkeys(name.split('.')[0] for name in TABLE))}"


def matched(row: Opcode, opcode: str, modifiers: tuple[str, ...]) -> Use:
    """Every modifier has its meaning in the row, and none is missing."""
    chosen = [word for word in modifiers if word in row.choices]
    ordering = tuple(
        word for word in modifiers
        if (word in SEMANTICS or word in SCOPES) and word not in row.choices
    )  # fmt: skip
    others = tuple(word for word in modifiers if word not in chosen and word not in ordering)
    for word in others:
        if not accepts(row, word):
            raise unknown_modifier(opcode, word, modifiers_of(row))
    sem, scope = row.order.resolve(row.name, ordering)
    return Use(row, sem, scope, others, choice_of(row, chosen))


def accepts(row: Opcode, word: str) -> bool:
    prefixes = (known[:-1] for known in row.words if known.endswith("*"))
    return word in row.words or any(word.startswith(prefix) for prefix in prefixes)


def modifiers_of(row: Opcode) -> tuple[str, ...]:
    """All that may stand after the name, those that matter first."""
    return (*row.order.semantics, *row.order.scopes, *row.choices, *row.words)


def choice_of(row: Opcode, chosen: list[str]) -> str:
    if not row.choices:
        return ""
    if len(chosen) == 1:
        return chosen[0]
    several = f"has {dotted(chosen)}; keep one" if chosen else f"needs one of {dotted(row.choices)}"
    raise Illegal(f"`{row.name}` {several}")
