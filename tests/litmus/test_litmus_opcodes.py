"""Each instruction of the litmus language, and the model's instruction that it becomes."""

from __future__ import annotations

import pytest
from lastread.litmus.language.opcodes import ROWS, use_of
from lastread.litmus.language.parser import parse
from lastread.model.axiomatic.code import (
    Act,
    AddressOf,
    Apply,
    Arguments,
    Arithmetic,
    Branch,
    Given,
    Location,
    Move,
    Read,
    Register,
    Statement,
    Term,
    Test,
)
from lastread.model.instructions import (
    Bar,
    BarWarpSync,
    BulkCopy,
    Fence,
    FenceProxy,
    FenceProxyAsync,
    Instruction,
    Load,
    MbarrierArrive,
    MbarrierTryWait,
    Pool,
    Proxy,
    Scope,
    Sem,
    StAsync,
    Tcgen05Mma,
)
from lastread.model.program import Space

INIT = """shared s; shared s2; tmem t; tmem t2; x = 0; P0:r9 = 3;
v @ surface aliases x; mbarrier b; mbarrier c count 2;"""


def a_test(instruction: str) -> Test:
    text = f"PTX one\n{{ {INIT} }}\nP0 ;\nmbarrier.init b, 1 ;\nL: {instruction} ;\nexists x = 1"
    return parse(text, "one.litmus")


def statement(instruction: str) -> Statement:
    return a_test(instruction).threads[0].code[1]


def act(instruction: str) -> Act:
    found = statement(instruction)
    assert isinstance(found, Act)
    return found


def made(instruction: str, values: tuple[int, ...] = (), everyone: int = 7) -> Instruction:
    """What the engine gets when the operands have these values."""
    test = a_test(instruction)
    found = test.threads[0].code[1]
    assert isinstance(found, Act)
    result = found.make(Arguments(places(test, found), values, everyone))
    assert result is not None
    return result


def places(test: Test, found: Act) -> tuple[Location, ...]:
    names = (each.name if isinstance(each, AddressOf) else "x" for each in found.addresses)
    return tuple(test.named[name] for name in names)


# --- memory ---------------------------------------------------------------------------------------

W, R, A, LL = "write", "read", "atomic", "alloc"
GENERIC, ASYNC, TMEM = Proxy.GENERIC, Proxy.ASYNC, Proxy.TMEM
OLD, GIVEN = Read(0), Given(0)
PRODUCT = Apply("mul", (Read(0), Read(1)))

ACCESSES: list[tuple[str, list[tuple[str, str, Proxy, Scope | None]]]] = [
    ("ld r1, x", [(R, "x", GENERIC, None)]),
    ("ld.weak r1, [x]", [(R, "x", GENERIC, None)]),
    ("ld.volatile.u32 r1, x", [(R, "x", GENERIC, Scope.SYS)]),
    ("ld.relaxed.gpu r1, x", [(R, "x", GENERIC, Scope.GPU)]),
    ("ld.acquire.cluster.shared::cta.b32 r1, s", [(R, "s", GENERIC, Scope.CLUSTER)]),
    ("ld.mmio.relaxed.sys.global r1, x", [(R, "x", GENERIC, Scope.SYS)]),
    ("ld.weak r1, r9", [(R, "x", GENERIC, None)]),
    ("suld r1, v", [(R, "x", Proxy.SURFACE, None)]),
    ("tld.weak r1, x", [(R, "x", Proxy.TEXTURE, None)]),
    ("cold r1, x", [(R, "x", Proxy.CONSTANT, None)]),
    ("st x, 1", [(W, "x", GENERIC, None)]),
    ("st.release.cta x, r9", [(W, "x", GENERIC, Scope.CTA)]),
    ("sust.weak v, 1", [(W, "x", Proxy.SURFACE, None)]),
    ("atom.add r1, x, 1", [(A, "x", GENERIC, Scope.GPU)]),
    ("atom.cas.acq_rel.sys.b32 r1, x, 0, 1", [(A, "x", GENERIC, Scope.SYS)]),
    ("suatom.exch.relaxed.cta r1, x, 2", [(A, "x", Proxy.SURFACE, Scope.CTA)]),
    ("red.release.cta.xor x, 1", [(A, "x", GENERIC, Scope.CTA)]),
    ("sured.and x, 1", [(A, "x", Proxy.SURFACE, Scope.GPU)]),
    ("cp.async.ca.shared.global s, x", [(W, "s", GENERIC, None), (R, "x", GENERIC, None)]),
    ("cp.async.bulk s, x, c", [(W, "s", ASYNC, None), (R, "x", ASYNC, None)]),
    ("cp.async.bulk s, s2, c", [(W, "s", ASYNC, None), (R, "s2", ASYNC, None)]),
    ("cp.async.bulk x, s", [(W, "x", ASYNC, None), (R, "s", ASYNC, None)]),
    ("st.async s, 1, c", [(W, "s", GENERIC, None)]),
    ("red.async.relaxed.cluster.add s, 1, c", [(A, "s", GENERIC, Scope.CLUSTER)]),
    ("wgmma.mma_async.sync.aligned.m64n8k16.f32 r1, s, s2",
     [(R, "s", ASYNC, None), (R, "s2", ASYNC, None)]),
    ("tcgen05.alloc t", [(LL, "t", TMEM, None)]),
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 t, s",
     [(LL, "t", TMEM, None), (W, "s", GENERIC, None)]),
    ("tcgen05.dealloc t", [("free", "t", TMEM, None)]),
    ("tcgen05.ld.sync.aligned.32x32b.x1.b32 r1, t", [(R, "t", TMEM, None)]),
    ("tcgen05.st t, 1", [(W, "t", TMEM, None)]),
    ("tcgen05.cp.cta_group::1.4x256b t, s", [(W, "t", TMEM, None), (R, "s", ASYNC, None)]),
    ("tcgen05.mma t", [(R, "t", TMEM, None), (W, "t", TMEM, None)]),
    ("tcgen05.mma t, t2, s, 0",
     [(R, "t2", TMEM, None), (R, "s", ASYNC, None), (W, "t", TMEM, None)]),
    ("tcgen05.mma t, s, s2",
     [(R, "s", ASYNC, None), (R, "s2", ASYNC, None), (R, "t", TMEM, None), (W, "t", TMEM, None)]),
    ("mbarrier.inval b", [("free", "b", GENERIC, None)]),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "wanted"), ACCESSES)
def test_accesses(instruction: str, wanted: list[tuple[str, str, Proxy, Scope | None]]) -> None:
    found = made(instruction).accesses
    assert [(a.role.value, a.region.label, a.proxy, a.strong) for a in found] == wanted


VALUES: list[tuple[str, tuple[Term, ...], Term | None]] = [
    ("ld r1, x", (), OLD),
    ("st x, 1", (GIVEN,), None),
    ("atom.add r1, x, 1", (Apply("add", (OLD, GIVEN)),), OLD),
    ("atom.exch r1, x, 1", (GIVEN,), OLD),
    ("atom.cas r1, x, 0, 1",
     (Apply("select", (Apply("eq", (OLD, GIVEN)), Given(1), OLD)),), OLD),
    ("red.sub x, 1", (Apply("sub", (OLD, GIVEN)),), None),
    ("cp.async s, x", (OLD,), None),
    ("cp.async.bulk s, x, c", (OLD,), None),
    ("st.async s, 1, c", (GIVEN,), None),
    ("red.async.max s, 1, c", (Apply("max", (OLD, GIVEN)),), None),
    ("wgmma.mma_async r1, s, s2", (), PRODUCT),
    ("tcgen05.alloc t, s", (GIVEN,), None),
    ("tcgen05.ld r1, t", (), OLD),
    ("tcgen05.st t, r9", (GIVEN,), None),
    ("tcgen05.cp t, s", (OLD,), None),
    ("tcgen05.mma t", (Apply("add", (OLD, 1)),), None),
    ("tcgen05.mma t, s, s2", (Apply("add", (Read(2), PRODUCT)),), None),
    ("tcgen05.mma t, s, s2, 0", (PRODUCT,), None),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "writes", "returns"), VALUES)
def test_values(instruction: str, writes: tuple[Term, ...], returns: Term | None) -> None:
    found = act(instruction)
    assert (found.writes, found.returns) == (writes, returns)
    assert found.result == (None if returns is None else "r1")


def test_the_engine_places_the_words() -> None:
    """Regions are those that the engine gives, so that words do not overlap."""
    first, second = made("cp.async.bulk s, s2, c").accesses
    assert not first.region.overlaps(second.region)
    assert first.region.space is Space.SHARED


# --- instructions that are one object -------------------------------------------------------------

ORDERED = [
    ("ld.volatile r1, x", Sem.RELAXED),
    ("ld.acquire.gpu r1, x", Sem.ACQUIRE),
    ("st.release.gpu x, 1", Sem.RELEASE),
    ("atom.acquire.add r1, x, 1", Sem.ACQUIRE),
    ("red.acq_rel.sys.add x, 1", Sem.ACQ_REL),
    ("barrier.cluster.arrive", Sem.RELEASE),
    ("barrier.cluster.arrive.relaxed.aligned", Sem.RELAXED),
    ("barrier.cluster.wait", Sem.ACQUIRE),
    ("barrier.cluster.wait.acquire", Sem.ACQUIRE),
]


@pytest.mark.parametrize(("instruction", "sem"), ORDERED)
def test_semantics(instruction: str, sem: Sem) -> None:
    found = made(instruction)
    assert getattr(found, "sem", None) is sem


WHOLE: list[tuple[str, Instruction]] = [
    ("fence.gpu", Fence(Sem.ACQ_REL, Scope.GPU)),
    ("fence.acq_rel.cluster", Fence(Sem.ACQ_REL, Scope.CLUSTER)),
    ("fence.sc.sys", Fence(Sem.SC, Scope.SYS)),
    ("fence.acquire.cta", Fence(Sem.ACQUIRE, Scope.CTA)),
    ("fence.release.gpu", Fence(Sem.RELEASE, Scope.GPU)),
    ("membar.cta", Fence(Sem.SC, Scope.CTA)),
    ("membar.gl", Fence(Sem.SC, Scope.GPU)),
    ("membar.sys", Fence(Sem.SC, Scope.SYS)),
    ("fence.proxy.alias", FenceProxy(None)),
    ("fence.proxy.generic", FenceProxy(Proxy.GENERIC)),
    ("fence.proxy.surface", FenceProxy(Proxy.SURFACE)),
    ("fence.proxy.texture", FenceProxy(Proxy.TEXTURE)),
    ("fence.proxy.constant", FenceProxy(Proxy.CONSTANT)),
    ("fence.proxy.async", FenceProxyAsync()),
    ("fence.proxy.async.global", FenceProxyAsync(Space.GLOBAL)),
    ("fence.proxy.async.shared::cta", FenceProxyAsync(Space.SHARED)),
    ("fence.proxy.async.shared::cluster", FenceProxyAsync(Space.SHARED)),
    ("bar.warp.sync", BarWarpSync()),
    ("bar.warp.sync 0xffffffff", BarWarpSync()),
]


@pytest.mark.parametrize(("instruction", "wanted"), WHOLE)
def test_fences(instruction: str, wanted: Instruction) -> None:
    assert made(instruction) == wanted


TEXTS = [
    ("fence.mbarrier_init.release.cluster", "fence.mbarrier_init"),
    ("mbarrier.arrive b", "mbarrier.arrive b"),
    ("mbarrier.arrive.relaxed.cluster.shared::cta.b64 b, 2", "mbarrier.arrive.relaxed.cluster b"),
    ("mbarrier.arrive.expect_tx b, 8", "mbarrier.arrive.expect_tx b"),
    ("mbarrier.expect_tx.relaxed.cta b, 8", "mbarrier.expect_tx b"),
    ("mbarrier.complete_tx b, 8", "mbarrier.complete_tx b"),
    ("cp.async.commit_group", "cp.async.commit_group"),
    ("cp.async.wait_group 1", "cp.async.wait_group 1"),
    ("cp.async.wait_all", "cp.async.wait_all"),
    ("cp.async.mbarrier.arrive b", "cp.async.mbarrier.arrive b"),
    ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 b", "cp.async.mbarrier.arrive.noinc b"),
    ("cp.async.bulk.commit_group", "cp.async.bulk.commit_group"),
    ("cp.async.bulk.wait_group 0", "cp.async.bulk.wait_group 0"),
    ("cp.async.bulk.wait_group.read 1", "cp.async.bulk.wait_group.read 1"),
    ("wgmma.fence.sync.aligned", "wgmma.fence.sync.aligned"),
    ("wgmma.commit_group", "wgmma.commit_group"),
    ("wgmma.wait_group 1", "wgmma.wait_group 1"),
    ("tcgen05.wait::ld.sync.aligned", "tcgen05.wait::ld"),
    ("tcgen05.wait::st", "tcgen05.wait::st"),
    ("tcgen05.fence::before_thread_sync", "tcgen05.fence::before_thread_sync"),
    ("tcgen05.fence::after_thread_sync", "tcgen05.fence::after_thread_sync"),
    ("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 b, c",
     "tcgen05.commit b, c"),
]  # fmt: skip


@pytest.mark.parametrize(("instruction", "text"), TEXTS)
def test_texts(instruction: str, text: str) -> None:
    assert made(instruction).text == text


# --- barriers -------------------------------------------------------------------------------------

BARS = [
    ("bar.cta.sync 1", (), "cta", 1, 7, True, False),
    ("bar.cta.sync 1, r9", (4,), "name", 1, 7, True, False),
    ("bar.cta.arrive 2, 1, 3", (1, 3), "", 2, 3, False, False),
    ("bar.sync 1", (1,), "cta", None, 7, True, True),
    ("bar.sync 1, 2", (1, 2), "", None, 2, True, True),
    ("bar.arrive r9, 2", (1, 2), "", None, 2, False, True),
    ("barrier.sync.aligned 1", (1,), "cta", None, 7, True, True),
    ("barrier.cta.sync 1", (1,), "cta", None, 7, True, True),
    ("barrier.arrive 1, 2", (1, 2), "", None, 2, False, True),
    ("barrier.cta.arrive 1, 2", (1, 2), "", None, 2, False, True),
]


@pytest.mark.parametrize(
    ("instruction", "values", "counted", "instance", "threads", "waits", "rearms"), BARS
)
def test_barriers(
    instruction: str, values: tuple[int, ...], counted: str, instance: int | None,
    threads: int, waits: bool, rearms: bool,
) -> None:  # fmt: skip
    found, bar = act(instruction), made(instruction, values)
    assert isinstance(bar, Bar)
    assert (found.counted, found.instance) == (counted, instance)
    assert found.shapes == tuple(range(len(values)))
    assert (bar.threads, bar.waits, bar.rearms) == (threads, waits, rearms)
    assert bar.everyone == (rearms and counted == "cta")


def test_barriers_of_different_instances_and_names_differ() -> None:
    forms = [("bar.cta.sync 1", ()), ("bar.cta.sync 2", ()), ("bar.sync 1", (1,))]
    forms += [("bar.cta.sync 1, r9", (value,)) for value in (-(2**31), -1, 0, 1, 2**32 - 1)]
    forms += [("bar.cta.sync 2, r9", (value,)) for value in (-(2**31), 2**32 - 1)]
    bars = [made(text, values) for text, values in forms]
    assert len({bar.id for bar in bars if isinstance(bar, Bar)}) == len(forms)


def test_mbarrier_defaults() -> None:
    arrive, wait = made("mbarrier.arrive b, 3"), made("mbarrier.try_wait.parity b, r9", (3,))
    assert isinstance(arrive, MbarrierArrive) and isinstance(wait, MbarrierTryWait)
    assert (arrive.count, arrive.sem, arrive.scope) == (3, Sem.RELEASE, Scope.CTA)
    assert (wait.parity, wait.sem, wait.scope) == (1, Sem.ACQUIRE, Scope.CTA)


def test_a_test_wait_passes_or_does_nothing() -> None:
    found = act("mbarrier.test_wait.parity.relaxed.cluster r1, b, 1")
    assert (found.outcomes, found.returns, found.result) == ((0, 1), None, "r1")
    passed = found.make(Arguments((), (1, 1)))
    assert isinstance(passed, MbarrierTryWait) and passed.sem is Sem.RELAXED
    assert found.make(Arguments((), (1, 0))) is None


def test_completion_counts_the_bytes_of_a_word() -> None:
    copy, store = made("cp.async.bulk s, x, c"), made("st.async s, 1, c")
    assert isinstance(copy, BulkCopy) and isinstance(store, StAsync)
    assert [signal.bytes for signal in (*copy.signals, *store.signals)] == [4, 4]


def test_the_words_of_a_bulk_copy() -> None:
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    assert made(f"{load} [s], [x], [c]") == made("cp.async.bulk s, x, c")
    store = "cp.async.bulk.global.shared::cta.bulk_group"
    assert made(f"{store} [x], [s]") == made("cp.async.bulk x, s")


def test_the_words_of_an_mma() -> None:
    mma = made("tcgen05.mma.cta_group::2.kind::tf32.shape::m128n64 t, s, s2, 1")
    assert isinstance(mma, Tcgen05Mma) and mma.pool is Pool.TCGEN05_MMA
    assert (mma.cta_group, mma.kind, mma.shape, mma.accumulate) == (2, "tf32", "m128n64", True)


# --- registers ------------------------------------------------------------------------------------


def test_moves() -> None:
    for text, value in (
        ("ld r1, 5", 5), ("ld r1, r9", Register("r9")), ("mov.u32 r1, -1", -1),
        ("mov r1, &x", AddressOf("x")), ("ld r1, &s", AddressOf("s")),
    ):  # fmt: skip
        found = statement(text)
        assert isinstance(found, Move) and (found.register, found.value) == ("r1", value)


def test_an_address_in_a_register() -> None:
    assert act("ld r1, [r9]").addresses == (Register("r9"),)
    assert act("st [r9], 1").addresses == (Register("r9"),)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "and", "or", "xor", "min", "max"])
def test_arithmetic(name: str) -> None:
    found = statement(f"{name}.u32 r1, r9, 2")
    assert isinstance(found, Arithmetic)
    assert (found.function, found.left, found.right) == (name, Register("r9"), 2)


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_branches(name: str) -> None:
    found = statement(f"b{name} r9, 0, L")
    assert isinstance(found, Branch)
    assert (found.comparison, found.target, found.left) == (name, 1, Register("r9"))


def test_goto() -> None:
    found = statement("goto L")
    assert isinstance(found, Branch) and (found.comparison, found.target) == (None, 1)


def test_an_address_stays_with_the_name_that_was_used() -> None:
    test = parse("PTX a\n{ x = 0; y @ generic aliases x; }\nP0 ;\nld r1, y ;\nexists x = 1")
    found = test.threads[0].code[0]
    assert isinstance(found, Act)
    load = found.make(Arguments(places(test, found), ()))
    assert isinstance(load, Load)
    assert (load.address, load.region.array) == ("y", "x")


def test_every_row_is_tested() -> None:
    """Each row of the table occurs in this file."""
    tables = (ACCESSES, VALUES, ORDERED, WHOLE, TEXTS, BARS)
    used = {use_of(str(row[0]).split()[0]).row.name for table in tables for row in table}
    used |= {"mov", "goto", "mbarrier.init", "mbarrier.try_wait.parity"}
    used |= {"mbarrier.test_wait.parity"}
    arithmetic = {"add", "sub", "mul", "div", "and", "or", "xor", "min", "max"}
    branches = {f"b{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge")}
    assert {row.name for row in ROWS} - used == arithmetic | branches


def test_every_row_says_where_it_stands_in_the_isa() -> None:
    assert all(row.section.startswith("PTX §") for row in ROWS)
