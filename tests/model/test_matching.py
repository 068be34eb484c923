"""Phase accounting: which arrival lands in which phase, in every schedule (PTX ISA §9.7.15.16).

`REVIEWED` holds programs whose matching depends on the schedule unnoticed when written.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from lastread.model import check
from lastread.model.program import Program
from programs import (
    B2,
    B3,
    INIT_FENCE,
    RELAXED,
    REMOTE,
    At,
    B,
    G,
    X,
    Y,
    arrive,
    bar,
    bar_arrive,
    cluster_arrive,
    cluster_wait,
    complete_tx,
    cp_arrive,
    cp_async,
    ctas,
    expect_tx,
    init,
    inval,
    lanes,
    ld,
    mbar,
    relaxed,
    st,
    syncwarp,
    threads,
    tma_load,
    wait,
    warps,
    when,
    wide,
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """`kind` and a part of the `reason` of an error finding; neither for a clean program."""

    name: str
    program: Program
    verdict: str
    kind: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return self.name


TWO = mbar("b", 2)
NONE = mbar("b", None)
OBJECT = mbar("b", None, bytes_known=True)
FAR_OBJECT = mbar("b", None, cta=0, bytes_known=True)
EXPECT = relaxed(arrive(B, expect=1024))
READER = [wait(B), ld(X)]


def ring(depth: int, tiles: int, flip: bool = True) -> Program:
    """A producer stores and a consumer loads `tiles` tiles through a ring of `depth` slots."""
    full = [mbar(chr(97 + s)) for s in range(depth)]
    empty = [mbar(chr(105 + s)) for s in range(depth)]
    slots = [X, Y][:depth]
    producer, consumer = [], []
    for tile in range(tiles):
        s, lap = tile % depth, tile // depth
        parity = lap % 2 if flip else 0
        producer += [wait(empty[s], parity ^ 1), st(slots[s]), arrive(full[s])]
        consumer += [wait(full[s], parity), ld(slots[s]), arrive(empty[s])]
    return threads(producer=producer, consumer=consumer)


CASES = [
    # rings and laps (§9.7.15.16.16)
    *(Case(f"ring of {d}, {n} tiles", ring(d, n), "ordered")
      for d, n in ((1, 1), (1, 4), (2, 1), (2, 5), (2, 8))),
    Case("parity not flipped at the wrap", ring(1, 3, flip=False), "deadlock", "deadlock"),
    Case("stale pass", threads(
        P=[st(X), arrive(B), wait(B2), st(X), arrive(B)],
        C=[wait(B, 0), ld(X), arrive(B2), wait(B, 0), ld(X)]), "deadlock", "lap", "misses phase 0"),
    Case("fresh barrier, parity 1", threads(T0=[st(X), arrive(B)], T1=[wait(B, 1), ld(X)]),
         "deadlock", "lap", ""),
    Case("fresh barrier, parity 1, nobody arrives", threads(T0=[wait(B, 1)]), "ordered"),
    Case("fresh barrier, parity 0, nobody arrives", threads(T0=[wait(B)]), "deadlock", "deadlock"),
    Case("missed phase", threads(
        T0=[arrive(B), wait(B2), arrive(B)], T1=[wait(B), arrive(B2)], T2=[wait(B)]),
        "deadlock", "lap", ""),
    Case("early pass", threads(
        T0=[arrive(B), wait(B2), arrive(B), wait(B3), arrive(B)],
        T1=[wait(B), arrive(B2), wait(B, 1), arrive(B3)],
        T2=[wait(B, 0)]),
        "misuse", "lap"),
    Case("nobody waits between phases (§9.7.15.16.4)", threads(T0=[arrive(B), arrive(B)]),
         "misuse", "lap", "nobody has waited for phase 0"),
    Case("own wait between phases", threads(T0=[arrive(B), wait(B), arrive(B), wait(B, 1)]),
         "ordered"),
    # counts (§9.7.15.16.13)
    Case("over-arrival", threads(T0=[arrive(B)], T1=[arrive(B)]), "misuse", "lap",
         "nobody has waited for phase 0"),
    Case("two arrivals of two", threads(T0=[st(X), arrive(TWO)], T1=[arrive(TWO)],
                                        T2=[wait(TWO), ld(X)]), "ordered"),
    Case("one arrival of two", threads(T0=[arrive(TWO)], T1=[wait(TWO)]), "deadlock", "deadlock"),
    Case("a warp arrives 32 times", warps(T0=[st(X), arrive(mbar("b", 32))],
                                          T1=[wait(mbar("b", 32)), ld(X)]), "ordered"),
    Case("a warp arrives on a count of 1", warps(T0=[arrive(B)], T1=[wait(B)]), "misuse", "count",
         "more arrivals in one phase than its count"),
    Case("arrive with a count", threads(T0=[st(X), arrive(TWO, count=2)], T1=[wait(TWO), ld(X)]),
         "ordered"),
    Case("some outcome over-arrives", threads(
        T0=[*when("c", arrive(B)), arrive(B)], T1=[wait(B)]), "deadlock", "deadlock"),
    Case("some outcome never arrives", threads(T0=[*when("c", arrive(B))], T1=[wait(B)]),
         "deadlock", "deadlock"),
    # transactions (§9.7.15.16.6, .11, .12)
    Case("bytes as expected", threads(T0=[EXPECT, tma_load(X, B)], T1=READER), "ordered"),
    Case("bytes before they are expected", threads(T0=[tma_load(X, B), EXPECT], T1=READER),
         "ordered"),
    Case("two copies, one expectation", threads(
        T0=[relaxed(arrive(B, expect=2048)), tma_load(X, B), tma_load(Y, B)], T1=READER),
        "ordered"),
    Case("fewer bytes", threads(
        T0=[relaxed(arrive(B, expect=2048)), tma_load(X, B)], T1=READER), "deadlock", "count",
        "fewer bytes arrive than are expected in phase 0"),
    Case("more bytes", threads(
        T0=[relaxed(arrive(B, expect=512)), tma_load(X, B)], T1=READER), "deadlock", "count",
        "more bytes arrive than are expected in phase 0"),
    Case("bytes nobody expects", threads(T0=[tma_load(X, B), arrive(B)], T1=READER), "deadlock",
         "count", "more bytes"),
    Case("expect_tx after the last arrival", threads(
        T0=[arrive(B), expect_tx(B), tma_load(X, B)], T1=READER), "race", "race"),
    Case("expect_tx before the arrival", threads(
        T0=[expect_tx(B), arrive(B), tma_load(X, B)], T1=READER), "ordered"),
    Case("expect_tx and complete_tx by hand", threads(
        T0=[st(X), expect_tx(B), arrive(B), complete_tx(B)], T1=READER), "ordered"),
    # cp.async.mbarrier.arrive (§9.7.15.16.15)
    Case("noinc is counted", threads(T0=[cp_async(X), cp_arrive(B)], T1=READER), "ordered"),
    Case("inc is net zero: nothing arrives", threads(
        T0=[cp_async(X), cp_arrive(B, noinc=False)], T1=READER), "deadlock", "deadlock"),
    Case("inc beside an arrival", threads(
        T0=[cp_async(X), cp_arrive(B, noinc=False), arrive(B)], T1=READER), "ordered"),
    Case("noinc not counted in init", threads(
        T0=[cp_async(X), cp_arrive(B), arrive(B)], T1=READER), "deadlock", "count"),
    # named barriers (§9.7.15.1)
    Case("bar.sync", threads(T0=[st(X), bar(2)], T1=[bar(2), ld(X)]), "ordered"),
    Case("bar.sync twice", threads(T0=[bar(2), st(X), bar(2)], T1=[bar(2), bar(2), ld(X)]),
         "ordered"),
    Case("bar.arrive and bar.sync", threads(T0=[st(X), bar_arrive(2)], T1=[bar(2), ld(X)]),
         "ordered"),
    Case("bar.sync of three, two come", threads(T0=[bar(3)], T1=[bar(3)]), "deadlock", "deadlock"),
    Case("bar.sync of two, three come", threads(T0=[bar(2)], T1=[bar(2)], T2=[bar(2)]), "deadlock",
         "deadlock"),
    Case("bar.sync of two, four come", threads(T0=[bar(2)], T1=[bar(2)], T2=[bar(2)], T3=[bar(2)]),
         "misuse", "count", "as the schedule decides"),
    Case("bar.arrive may run ahead", threads(
        T0=[bar_arrive(2), bar_arrive(2)], T1=[bar(2), bar(2)]), "deadlock", "count",
        "as the schedule decides"),
    Case("warps count 32", warps(T0=[st(X), bar(64)], T1=[bar(64), ld(X)]), "ordered"),
    Case("warps on a count of 2", warps(T0=[bar(2)], T1=[bar(2)]), "misuse", "count",
         "more threads than its count"),
    Case("other names are other barriers", threads(T0=[bar(2, 1)], T1=[bar(2, 2)]), "deadlock",
         "deadlock"),
    Case("other CTAs are other barriers", ctas(T0=[bar(2)], T1=[bar(2)]), "deadlock", "deadlock"),
    # warp and cluster barriers (§9.7.15.2-3)
    Case("bar.warp.sync", lanes(L0=[st(X), syncwarp()], L1=[syncwarp(), ld(X)]), "ordered"),
    Case("bar.warp.sync, a lane is missing", lanes(L0=[syncwarp()], L1=[wait(B), syncwarp()]),
         "deadlock", "deadlock"),
    Case("cluster barrier", ctas(
        T0=[st(G), cluster_arrive(), cluster_wait()],
        T1=[cluster_arrive(), cluster_wait(), ld(G)]), "ordered"),
    Case("cluster barrier twice", ctas(
        T0=[cluster_arrive(), cluster_wait(), st(G), cluster_arrive(), cluster_wait()],
        T1=[cluster_arrive(), cluster_wait(), cluster_arrive(), cluster_wait(), ld(G)]), "ordered"),
    Case("cluster barrier: exited threads count as arrived", ctas(
        T0=[cluster_arrive(), cluster_wait()], T1=[ld(G)]), "ordered"),
    Case("cluster barrier: a thread is stuck before it", ctas(
        T0=[cluster_arrive(), cluster_wait()], T1=[wait(REMOTE), cluster_arrive()]), "deadlock",
        "deadlock"),
    # lifetimes (§9.7.15.16.9-10)
    Case("init, bar, use", threads(T0=[st(X), init(OBJECT), bar(2), arrive(OBJECT)],
                                   T1=[bar(2), wait(OBJECT)]), "ordered"),
    Case("use of an unpublished init", threads(T0=[init(OBJECT)], T1=[arrive(OBJECT)]), "misuse",
         "lifetime"),
    Case("use without init", threads(T0=[arrive(NONE)]), "misuse", "lifetime",
         "used before mbarrier.init"),
    Case("init twice", threads(T0=[init(NONE), init(NONE)]), "misuse", "lifetime",
         "init of a live mbarrier"),
    Case("inval beside a use", threads(T0=[init(OBJECT), bar(2), inval(OBJECT)],
                                       T1=[bar(2), arrive(OBJECT)]), "misuse", "lifetime"),
    Case("inval after the last use", threads(T0=[init(OBJECT), bar(2), bar(2), inval(OBJECT)],
                                             T1=[bar(2), arrive(OBJECT), bar(2)]), "ordered"),
    Case("use after inval", threads(T0=[init(NONE), inval(NONE), arrive(NONE)]), "misuse",
         "lifetime"),
    Case("remote init with its fence", ctas(
        T0=[init(FAR_OBJECT), INIT_FENCE, cluster_arrive(RELAXED), cluster_wait()],
        T1=[cluster_arrive(RELAXED), cluster_wait(), wide(arrive(FAR_OBJECT))]), "ordered"),
    Case("remote init without its fence", ctas(
        T0=[init(FAR_OBJECT), cluster_arrive(RELAXED), cluster_wait()],
        T1=[cluster_arrive(RELAXED), cluster_wait(), wide(arrive(FAR_OBJECT))]), "misuse",
        "lifetime"),
]  # fmt: skip


def found(case: Case) -> bool:
    errors = check(case.program).errors
    return not case.kind or any(e.kind == case.kind and case.reason in e.reason for e in errors)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matching(case: Case) -> None:
    assert check(case.program).verdict == case.verdict
    assert found(case)


def test_a_deadlock_names_the_agents_of_its_cycle() -> None:
    crossed = threads(apple=[wait(B), arrive(B2)], pear=[wait(B2), arrive(B)], plum=[wait(B)])
    (finding,) = check(crossed).errors
    assert finding.kind == "deadlock"
    assert len(finding.cycle) == 2
    assert {line.split()[0] for line in finding.cycle} == {"apple", "pear"}


def test_a_cycle_of_three() -> None:
    circle = threads(
        a=[wait(B), arrive(B2)], b=[wait(B2), arrive(B3)], c=[wait(B3), arrive(B)]
    )  # fmt: skip
    (finding,) = check(circle).errors
    assert [line.split()[0] for line in finding.cycle] == ["a", "c", "b"]


# --- programs on which an earlier model and the text differed -----------------------------------

REVIEWED = [
    # The bytes' own complete_tx counts as an arrival that expect_tx precedes, but it does not
    # keep the phase open: when T2 arrives first, the phase completes with X still to be copied.
    Case("bare expect_tx before its copy only (§9.7.15.16.6)", threads(
        T0=[expect_tx(B), tma_load(X, B)], T2=[arrive(B)], T1=READER), "race", "count"),
    Case("bare expect_tx beside the arrival", threads(
        T0=[expect_tx(B), complete_tx(B)], T1=[arrive(B), wait(B)]), "misuse", "count"),
    # When T2 arrives first the phase completes, and the increment belongs to the next phase.
    Case("increment beside the last arrival (§9.7.15.16.15)", threads(
        T0=[cp_async(X), cp_arrive(B, noinc=False)], T2=[ld(Y), arrive(B)], T1=READER),
        "race", "count"),
    # A new life of the object starts at phase 0; what its first life did is over.
    Case("inval and init again (§9.7.15.16.10)", threads(
        T0=[init(NONE), arrive(NONE), wait(NONE), inval(NONE),
            init(NONE), arrive(NONE), wait(NONE)]), "ordered"),
    # The pairs (a, b) and (c, d) synchronise apart.
    Case("two masks of one warp (§9.7.15.2)", lanes(
        a=[At(0, st(X)), At(1, syncwarp(3))], b=[At(0, ld(Y)), At(2, syncwarp(3))],
        c=[At(1, syncwarp(12)), At(2, ld(X))], d=[At(2, syncwarp(12))]), "race", "race"),
    # st on the bytes of a live object (§9.7.15.16.3).
    Case("store into a live object", threads(
        T0=[init(OBJECT), st(OBJECT.region or X), arrive(OBJECT)]), "misuse", "lifetime"),
    # Remote objects: arrive and expect only (§9.7.15.16.16).
    Case("wait on another CTA's object", ctas(T0=[wait(REMOTE)], T1=[wide(arrive(REMOTE))]),
         "misuse", "lifetime"),
]  # fmt: skip


@pytest.mark.parametrize("case", REVIEWED, ids=str)
def test_what_a_review_found(case: Case) -> None:
    assert check(case.program).verdict == case.verdict
    assert found(case)
