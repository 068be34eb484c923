"""Every rule of the table matters: take it away and order is lost, loosen it and a race is missed.

A new rule without a row in both tables fails `test_every_rule_has_both_rows`. Rules about values
have theirs in `value_cases.py`, as `check` knows no values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from lastread.model import check, pipes
from lastread.model import instructions as ins
from lastread.model.causality import Causality
from lastread.model.composition import DOUBTFUL, ROWS, Edge, Mode, Row, State, Which
from lastread.model.instructions import Instruction
from lastread.model.program import Program, Region, Space
from lastread.model.readings import ASSUMPTIONS, Reading, reading_named
from lastread.model.rules import EVERY_POOL, TABLE, RuleTable
from programs import (
    ACQUIRE,
    AFTER,
    ASYNC_FENCES,
    B2,
    BEFORE,
    COMMIT_GROUP,
    CP_COMMIT,
    INIT_FENCE,
    RELAXED,
    REMOTE,
    WAIT_LD,
    WAIT_ST,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    At,
    B,
    D,
    G,
    T,
    X,
    Y,
    arrive,
    bar,
    cluster_arrive,
    cluster_wait,
    commit,
    copy,
    cp_arrive,
    cp_async,
    cp_wait,
    ctas,
    fence,
    init,
    lanes,
    ld,
    mbar,
    mma,
    proxy_fence,
    relaxed,
    st,
    st_async,
    syncwarp,
    t_cp,
    t_ld,
    t_st,
    threads,
    tma_load,
    tma_store,
    use,
    wait,
    wait_group,
    wait_group_read,
    wgmma,
    wgmma_wait,
    wide,
)  # fmt: skip
from value_cases import VALUE_RULES

PTX, STRICT, HARDWARE = (reading_named(name) for name in ("ptx", "strict", "hardware"))
PTX_93 = reading_named("ptx", "9.3")


def without(assumption: str, reading: Reading = PTX) -> Reading:
    assert assumption in ASSUMPTIONS
    return reading.assume(f"no-{assumption}")


BARE_WAIT = without("acquire-wait-orders-tcgen05")
CARRIED = "completed-work-rides-happens-before"
EXPECT = relaxed(arrive(B, expect=1024))

# --- programs that several rows share -------------------------------------------------------------

PASSING = threads(T0=[st(X), arrive(B)], T1=[wait(B), ld(X)])
SEED = threads(T0=[t_ld(T, "r"), arrive(B), use("r")], T1=[wait(B), mma(T)])
SEED_FIXED = threads(T0=[t_ld(T, "r"), WAIT_LD, arrive(B), use("r")], T1=[wait(B), mma(T)])
USED_BEFORE = threads(T0=[t_ld(T, "r"), use("r"), arrive(B)], T1=[wait(B), mma(T)])
COPIED_BEFORE = threads(
    T0=[t_ld(T, "r"), copy("s", "r"), arrive(B), use("s")], T1=[wait(B), mma(T)]
)
FENCED_PAIR = threads(
    T0=[t_ld(T), WAIT_LD, BEFORE, relaxed(arrive(B))], T1=[relaxed(wait(B)), AFTER, mma(T)]
)
COMMITTED = threads(T0=[mma(D), commit(B)], T1=[wait(B), t_ld(D)])
TMA_RAW = threads(T0=[EXPECT, tma_load(X, B)], T1=[wait(B), ld(X)])
TMA_HISTORY = threads(T0=[st(Y), EXPECT, tma_load(X, B)], T1=[wait(B), ld(Y)])
STORE_BY_OTHER = threads(T0=[st(X), proxy_fence(), arrive(B)], T1=[wait(B), tma_store(X)])
FENCED_ELSEWHERE = ctas(
    T0=[st(G), proxy_fence(), wide(arrive(REMOTE))],
    T1=[wide(wait(REMOTE)), ins.BulkCopy((), (G,))],
)
STORE_THEN_WGMMA = threads(T0=[st(X), proxy_fence(), WGMMA_FENCE, wgmma(X, Y)])
MMA_READS_THEN_ST = threads(T0=[mma(D, X), commit(B)], T1=[wait(B), st(X)])
READ_THEN_TMA = threads(T0=[ld(X), arrive(B)], T1=[wait(B), tma_load(X, B2)])
ACROSS_CTAS = ctas(T0=[st(G), arrive(REMOTE)], T1=[wait(REMOTE), ld(G)])
OTHER_CTAS_COPY = ctas(
    T0=[arrive(B, expect=1024), wait(B), ld(X)], T1=[tma_load(X, B)]
)  # fmt: skip
RIDING = threads(
    T0=[ld(Y), arrive(B2)], T1=[wait(B2), mma(D, X), commit(B)], T2=[wait(B), st(Y)]
)  # fmt: skip
PIPED_ACROSS = threads(T0=[t_cp(T), BEFORE, relaxed(arrive(B))],
                       T1=[relaxed(wait(B)), AFTER, mma(D, T)])  # fmt: skip
PIPED_IN_WARP = lanes(T0=[t_cp(T), BEFORE, syncwarp()], T1=[syncwarp(), AFTER, mma(D, T)])
SHIFTED = replace(T, columns=(T.columns[0] + 8, T.columns[1] + 8))
LANES = lanes(L0=[At(0, st(X))], L1=[At(1, ld(X))])
METAL = ins.Bar(0, 2, spaces=frozenset((Space.SHARED,)))
OBJECT = mbar("b", None, bytes_known=True)
INIT_ACROSS = ctas(
    T0=[init(OBJECT), INIT_FENCE, cluster_arrive(RELAXED), cluster_wait()],
    T1=[cluster_arrive(RELAXED), cluster_wait(), wide(arrive(OBJECT))],
)
TMEM_OVER_BAR = threads(T0=[t_ld(T), WAIT_LD, bar(2)], T1=[bar(2), AFTER, mma(T)])


@dataclass(frozen=True)
class Row_:
    """A program in a reading, and what is expected with the real tables and the changed ones."""

    program: Program
    reading: Reading = PTX
    real: str = "ordered"
    changed: str = "race"
    table: RuleTable | None = None
    rows: tuple[Row, ...] = ROWS


def removed(case: Program, reading: Reading = PTX, changed: str = "race") -> Row_:
    return Row_(case, reading, "ordered", changed)


REMOVED: dict[str, Row_] = {
    # program order
    "po": removed(PASSING),
    "lanes-run-together": removed(LANES, HARDWARE),
    "iss": removed(STORE_BY_OTHER),
    "acquire-tcgen05": removed(SEED_FIXED),
    "after_thread_sync": removed(FENCED_PAIR),
    "tcgen05-in-order": removed(threads(T0=[t_st(T), WAIT_ST, mma(D, T)])),
    "proxy-fence-in-order": removed(threads(T0=[st(X), proxy_fence(), mma(D, X)])),
    "issue": removed(
        threads(T0=[t_ld(T, "r"), use("r"), t_st(T)]), HARDWARE.at("9.3")
    ),
    # completion
    "release": removed(PASSING),
    "bar": removed(threads(T0=[st(X), bar(2)], T1=[bar(2), ld(X)])),
    "metal-flags": removed(threads(T0=[ld(G), METAL], T1=[METAL, st(G)])),
    "bar.warp.sync": removed(lanes(L0=[st(X), syncwarp()], L1=[syncwarp(), ld(X)])),
    "fence.mbarrier_init": removed(INIT_ACROSS, changed="misuse"),
    "wait::ld": removed(SEED_FIXED),
    "wait::st": removed(threads(T0=[t_st(T), WAIT_ST, mma(D, T)])),
    "register-use": removed(USED_BEFORE, HARDWARE),
    "commit": removed(COMMITTED),
    "complete_tx": removed(TMA_RAW),
    "bulk-group": removed(threads(T0=[tma_store(X, G), COMMIT_GROUP, wait_group(), ld(G)])),
    "bulk-group.read": removed(
        threads(T0=[tma_store(X, G), COMMIT_GROUP, wait_group_read(), st(X)])
    ),
    "cp.async-group": removed(threads(T0=[cp_async(X), CP_COMMIT, cp_wait(), ld(X)])),
    "cp.async.mbarrier.arrive": removed(
        threads(T0=[cp_async(X), cp_arrive(B)], T1=[wait(B), ld(X)])
    ),
    "wgmma.fence": removed(STORE_THEN_WGMMA),
    "wgmma-in-order": removed(STORE_THEN_WGMMA),
    "wgmma-group": removed(threads(T0=[wgmma(X, Y), WGMMA_COMMIT, wgmma_wait(), st(X)]), HARDWARE),
    # hand-off
    "mbarrier": removed(PASSING),
    "async-arrive": removed(TMA_RAW),
    "in-flight": removed(RIDING),
    "bar-sync": removed(threads(T0=[st(X), bar(2)], T1=[bar(2), ld(X)])),
    "cluster-barrier": removed(
        ctas(T0=[st(G), cluster_arrive(), cluster_wait()],
             T1=[cluster_arrive(), cluster_wait(), ld(G)])
    ),  # fmt: skip
    "completed-rides": removed(SEED_FIXED),
    "before_thread_sync": removed(FENCED_PAIR),
    "own-effects": removed(OTHER_CTAS_COPY),
    "cta-spans-cluster": removed(ACROSS_CTAS, HARDWARE),
    # pairs
    "pipelined": removed(threads(T0=[mma(D), mma(D)])),
    "pipelined-ld-st": removed(threads(T0=[t_st(T), t_ld(T)])),
    "pipelined-across": removed(PIPED_ACROSS, PTX_93),
    "pipelined-instructions": removed(threads(T0=[mma(D), mma(D)]), PTX_93),
    "pipelined-in-warp": removed(PIPED_IN_WARP),
    "pipelined-cp-overlap": removed(threads(T0=[t_cp(T), mma(D, SHIFTED)])),
    "proxy-fence": removed(STORE_BY_OTHER),
    "proxy-fence-anywhere": removed(FENCED_ELSEWHERE),
    "implicit-proxy-fence": removed(TMA_RAW),
    "async-read-done": removed(MMA_READS_THEN_ST, HARDWARE),
    "war-without-proxy-fence": removed(READ_THEN_TMA, HARDWARE),
}  # fmt: skip


# --- loosened -------------------------------------------------------------------------------------


def loose(rule: str, **changes: object) -> RuleTable:
    return TABLE.replacing(replace(TABLE[rule], **changes))  # type: ignore[arg-type]


def missed(case: Program, table: RuleTable, reading: Reading = PTX, real: str = "race") -> Row_:
    return Row_(case, reading, real, "ordered", table)


def row(name: str, **changes: object) -> tuple[Row, ...]:
    """The composition table with one row changed."""
    assert name in {r.name for r in ROWS}
    return tuple(replace(r, **changes) if r.name == name else r for r in ROWS)  # type: ignore[arg-type]


def with_row(edge: Edge, mode: Mode) -> tuple[Row, ...]:
    """The composition table with one more row, which carries everything."""
    return (*ROWS, Row("extra", edge, mode, lambda state, label, context: state))


def carried(case: Program, rows: tuple[Row, ...], reading: Reading = PTX) -> Row_:
    return Row_(case, reading, "race", "ordered", None, rows)


def flies(state: State, label: object, context: object) -> State:
    """Leaves its thread whatever the semantics and scopes say."""
    return State(Mode.FLIGHT, scope=ins.Scope.SYS, fenced=state.fenced)


def held(state: State, label: object, context: object) -> State:
    return State(fenced=state.fenced)


def fenced(state: State, label: object, context: object) -> State:
    return state._replace(fenced=ASYNC_FENCES)


def always(_: object) -> bool:
    return True


ANY = (Instruction,)
ALL_WAITS = (ins.Tcgen05Wait, ins.Tcgen05Commit)
RELAXED_RIDES = threads(T0=[st(X), relaxed(arrive(B))], T1=[wait(B), ld(X)])

LOOSENED: dict[str, Row_] = {
    # program order: bounds on pools they do not name, or at instructions they do not
    "po": missed(SEED_FIXED, loose("po", at=ANY, takes=EVERY_POOL), BARE_WAIT),
    "lanes-run-together": missed(LANES, loose("lanes-run-together", assumption=None)),
    "iss": missed(SEED_FIXED, loose("iss", takes=EVERY_POOL), BARE_WAIT),
    "acquire-tcgen05": missed(SEED_FIXED, loose("acquire-tcgen05", assumption=None), BARE_WAIT),
    "after_thread_sync": missed(
        threads(T0=[t_ld(T), WAIT_LD, arrive(B)], T1=[wait(B), BEFORE, mma(T)]),
        loose("after_thread_sync", when=always), BARE_WAIT,
    ),
    "tcgen05-in-order": carried(  # what the thread acquired from others is no tcgen05 order
        threads(T0=[t_ld(T), WAIT_LD, arrive(B)], T1=[wait(B), WAIT_LD, mma(T)]),
        row("begin-held", then=lambda state, label, context: state), BARE_WAIT,
    ),
    "proxy-fence-in-order": missed(
        threads(T0=[st(X), proxy_fence(), arrive(B)], T1=[wait(B), mma(D, X)]),
        loose("proxy-fence-in-order", at=(ins.FenceProxyAsync, ins.MbarrierTryWait)), BARE_WAIT,
    ),
    "issue": missed(
        SEED_FIXED, loose("issue", when=always), without("acquire-wait-orders-tcgen05", HARDWARE)
    ),
    # completion: accesses they do not take
    "release": missed(SEED, loose("release", takes=EVERY_POOL)),
    "bar": missed(
        threads(T0=[t_ld(T), bar(2)], T1=[bar(2), mma(T)]), loose("bar", takes=EVERY_POOL)
    ),
    "bar.warp.sync": missed(
        lanes(L0=[cp_async(X), syncwarp()], L1=[syncwarp(), ld(X)]),
        loose("bar.warp.sync", takes=EVERY_POOL),
    ),
    "fence.mbarrier_init": missed(
        threads(
            T0=[st(X), INIT_FENCE, relaxed(arrive(B))],
            T1=[wait(B), ld(X)],
        ),
        loose("fence.mbarrier_init", access=always),
    ),
    "wait::ld": missed(
        threads(T0=[t_st(T), WAIT_LD, mma(D, T)]), loose("wait::ld", takes=EVERY_POOL)
    ),
    "wait::st": missed(
        threads(T0=[t_ld(T), WAIT_ST, mma(T)]), loose("wait::st", takes=EVERY_POOL)
    ),
    "register-use": missed(USED_BEFORE, loose("register-use", assumption=None)),
    "commit": missed(
        threads(T0=[t_ld(T), commit(B)], T1=[wait(B), mma(T)]), loose("commit", takes=EVERY_POOL)
    ),
    "complete_tx": missed(TMA_HISTORY, loose("complete_tx", takes=EVERY_POOL)),
    "bulk-group": missed(
        threads(T0=[tma_store(X, G), COMMIT_GROUP, wait_group_read(), ld(G)]),
        loose("bulk-group", when=always),
    ),
    "bulk-group.read": missed(
        threads(T0=[tma_store(X, G), COMMIT_GROUP, wait_group_read(), ld(G)]),
        loose("bulk-group.read", access=always),
    ),
    "cp.async-group": missed(
        threads(T0=[tma_store(X, G), COMMIT_GROUP, cp_wait(), st(X)]),
        loose("cp.async-group", takes=EVERY_POOL),
    ),
    "cp.async.mbarrier.arrive": missed(
        threads(T0=[st(Y), cp_async(X), cp_arrive(B)], T1=[wait(B), ld(Y)]),
        loose("cp.async.mbarrier.arrive", takes=EVERY_POOL),
    ),
    "wgmma.fence": missed(  # an mma that is not complete
        threads(T0=[wgmma(X, Y), WGMMA_FENCE, arrive(B)], T1=[wait(B), st(X)]),
        loose("wgmma.fence", takes=EVERY_POOL), HARDWARE,
    ),
    "wgmma-in-order": missed(
        threads(T0=[st(X), proxy_fence(), arrive(B)], T1=[wait(B), wgmma(X, Y)]),
        loose("wgmma-in-order", at=(ins.MbarrierTryWait,)),
    ),
    "wgmma-group": missed(
        threads(T0=[tma_store(X, G), COMMIT_GROUP, wgmma_wait(), st(X)]),
        loose("wgmma-group", takes=EVERY_POOL), HARDWARE,
    ),
    # hand-off: composition rows that carry too much
    "mbarrier": Row_(RELAXED_RIDES, PTX, "race", "ordered",
                     loose("release", when=always), row("arrive-held", then=flies)),
    "async-arrive": carried(
        threads(T0=[st(Y), arrive(B2), commit(B)], T1=[wait(B), ld(Y)]),
        with_row(Edge.ISSUE, Mode.HELD),
    ),
    "in-flight": carried(
        threads(T0=[mma(D), st(Y), arrive(B2), commit(B)], T1=[wait(B), ld(Y)]),
        with_row(Edge.ISSUE, Mode.HELD),
    ),
    "bar-sync": carried(TMEM_OVER_BAR, row("bar-in", which=Which.ALL), STRICT),
    "cluster-barrier": Row_(
        ctas(T0=[st(G), cluster_arrive(RELAXED), cluster_wait()],
             T1=[cluster_arrive(), cluster_wait(), ld(G)]),
        PTX, "race", "ordered", loose("release", when=always), row("cluster-in", then=flies),
    ),
    "completed-rides": missed(
        SEED_FIXED, loose("completed-rides", assumption=None), without(CARRIED)
    ),
    "before_thread_sync": carried(
        threads(
            T0=[st(X), arrive(B2), BEFORE, relaxed(arrive(B))],
            T1=[relaxed(wait(B)), fence(ACQUIRE), ld(X)],
        ),
        row("before-arms", which=Which.ALL),
    ),
    "own-effects": missed(OTHER_CTAS_COPY, loose("own-effects", assumption=None), STRICT),
    "cta-spans-cluster": missed(ACROSS_CTAS, loose("cta-spans-cluster", assumption=None)),
    # pairs
    "pipelined-ld-st": missed(
        threads(T0=[t_st(T), t_ld(T)]), loose("pipelined-ld-st", since="6.0"), PTX_93
    ),
    "pipelined-across": missed(PIPED_ACROSS, loose("pipelined-across", until="9.4")),
    "proxy-fence-anywhere": missed(
        FENCED_ELSEWHERE, loose("proxy-fence-anywhere", assumption=None), reading_named("strict")
    ),
    "proxy-fence": carried(
        threads(T0=[st(X), fence(), arrive(B)], T1=[wait(B), tma_store(X)]),
        row("arrive-armed", then=lambda state, label, context: fenced(
            flies(state, label, context), label, context)),
    ),
    "implicit-proxy-fence": carried(
        MMA_READS_THEN_ST,
        row("signal", then=lambda state, label, context: fenced(
            flies(state, label, context), label, context)),
        STRICT,
    ),
    "async-read-done": missed(MMA_READS_THEN_ST, loose("async-read-done", assumption=None), STRICT),
    "war-without-proxy-fence": missed(
        READ_THEN_TMA, loose("war-without-proxy-fence", assumption=None), STRICT
    ),
}  # fmt: skip


def test_every_rule_has_both_rows() -> None:
    assert not VALUE_RULES & set(REMOVED)
    assert set(REMOVED) | VALUE_RULES == set(TABLE.rules)
    own_tests = {"pipelined", "pipelined-instructions", "pipelined-in-warp", *DOUBTFUL}
    assert set(LOOSENED) | own_tests | VALUE_RULES == set(TABLE.rules)


@pytest.mark.parametrize("name", REMOVED)
def test_without_the_rule_order_is_lost(name: str) -> None:
    case = REMOVED[name]
    assert check(case.program, case.reading).verdict == case.real
    assert check(case.program, case.reading, table=TABLE.without(name)).verdict == case.changed


@pytest.mark.parametrize("name", LOOSENED)
def test_with_the_rule_loosened_a_race_is_missed(name: str) -> None:
    case = LOOSENED[name]
    assert check(case.program, case.reading).verdict == case.real
    table = case.table or TABLE
    assert check(case.program, case.reading, table=table, rows=case.rows).verdict == case.changed


@pytest.mark.parametrize("isa", ["9.3", "9.4"])
def test_pairs_of_any_two_accumulators_would_miss_a_race(
    monkeypatch: pytest.MonkeyPatch, isa: str
) -> None:
    """`pipelined` and `pipelined-instructions` loosened: their pairs are in pipes.py."""
    assert check(two_shapes(), PTX.at(isa)).verdict == "race"
    monkeypatch.setattr(pipes, "accumulator", lambda mma, reading: ())
    assert check(two_shapes(), PTX.at(isa)).verdict == "ordered"


def two_shapes() -> Program:
    return threads(T0=[mma(D, shape="one"), mma(D, shape="two")])


def test_a_metal_flag_is_for_reads_and_not_strict() -> None:
    """`metal-flags` loosened: the builder takes reads only, and the reading switches it off."""
    assert check(threads(T0=[ld(G), METAL], T1=[METAL, st(G)]), STRICT).verdict == "race"
    assert check(threads(T0=[st(G), METAL], T1=[METAL, ld(G)]), PTX).verdict == "race"
    (note,) = check(threads(T0=[ld(G), METAL], T1=[METAL, st(G)]), PTX).findings
    assert note.severity == "note"


def test_a_pair_in_any_two_warps_would_miss_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pipelined-in-warp` loosened: the warps are compared in the engine."""
    assert check(PIPED_ACROSS, PTX).verdict == "race"
    monkeypatch.setattr(Causality, "_same_warp", lambda *_: True)
    PIPED_ACROSS.memo.clear()
    assert check(PIPED_ACROSS, PTX).verdict == "ordered"


def test_a_copy_that_starts_elsewhere_is_a_note_and_not_strict() -> None:
    """`pipelined-cp-overlap` loosened: the reading switches it off."""
    apart = threads(T0=[t_cp(T), mma(D, SHIFTED)])
    (finding,) = check(apart, PTX).findings
    assert finding.severity == "note"
    assert check(apart, "strict").verdict == "race"


def test_st_async_completes_like_a_bulk_copy() -> None:
    """Its own bytes are there when they are counted; what its thread did before is not."""

    def stored(read: Region) -> Program:
        return threads(T0=[st(Y), EXPECT, st_async(X, B)], T1=[wait(B), ld(read)])

    assert check(stored(X), PTX).verdict == "ordered"
    assert check(stored(X), PTX, table=TABLE.without("complete_tx")).verdict == "race"
    assert check(stored(Y), PTX).verdict == "race"
