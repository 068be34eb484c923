"""Canonical patterns of PTX ISA §9.7.18.6.4 and other shapes whose verdict the text gives.

Sections are those of PTX ISA 9.4. Verdicts come from the text, not from running the model.
`REVIEWED` at the end holds patterns on which the model and the text differed when written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from lastread.model import check
from lastread.model import instructions as ins
from lastread.model.instructions import Instruction
from lastread.model.program import Agent, Program, Region, Space
from lastread.model.readings import reading_named
from programs import (
    ACQ_REL,
    ACQUIRE,
    AFTER,
    B2,
    B3,
    BEFORE,
    CLUSTER,
    COMMIT_GROUP,
    CP_COMMIT,
    INIT_FENCE,
    KILO,
    RELAXED,
    RELEASE,
    REMOTE,
    WAIT_LD,
    WAIT_ST,
    At,
    B,
    D,
    E,
    G,
    T,
    U,
    X,
    Y,
    Z,
    agent,
    arrive,
    bar,
    bar_arrive,
    cluster_arrive,
    cluster_wait,
    commit,
    copy,
    cp_arrive,
    cp_async,
    cp_wait,
    ctas,
    expect_tx,
    fence,
    init,
    inval,
    lanes,
    ld,
    mbar,
    mma,
    program,
    proxy_fence,
    relaxed,
    st,
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
    warps,
    when,
    wide,
)  # fmt: skip

Verdicts = dict[str, str]


@dataclass(frozen=True)
class Pattern:
    """`section` of the PTX ISA, and the verdict expected in each reading named."""

    name: str
    section: str
    program: Program
    expected: Verdicts
    isa: str = "9.4"

    def __str__(self) -> str:
        return f"{self.name}@{self.isa}"


def always(verdict: str) -> Verdicts:
    return {"strict": verdict, "ptx": verdict, "hardware": verdict}


HANGS = {"strict": "deadlock", "ptx": "deadlock", "hardware": "deadlock"}


def text(verdict: str) -> Verdicts:
    """By the text; the hardware reading may add order to it."""
    return {"strict": verdict, "ptx": verdict}


ORDERED, RACE = always("ordered"), always("race")
J3 = {"strict": "race", "ptx": "ordered", "hardware": "ordered"}
"""Ordered once an acquire wait orders tcgen05 accesses and completed work rides."""

EXPECT = relaxed(arrive(B, expect=1024))
RELAXED_ARRIVE, RELAXED_WAIT = relaxed(arrive(B)), relaxed(wait(B))
STORED = [t_ld(T, "r"), use("r"), t_st(T)]

P3 = threads(T0=[t_cp(T), BEFORE, RELAXED_ARRIVE], T1=[RELAXED_WAIT, AFTER, mma(D, T)])
P2A = threads(T0=[t_st(T), t_ld(T)])
P5S = threads(T0=[*STORED, WAIT_ST, BEFORE, arrive(B)], T1=[wait(B), AFTER, mma(T)])
KINDS = threads(T0=[mma(D, kind="f16"), mma(D, kind="tf32")])

F = "§9.7.18.6.4"

TCGEN05 = [
    # P1: consecutive mma on one accumulator
    *(Pattern("P1", f"{F}.1", threads(T0=[mma(D), mma(D)]), ORDERED, isa)
      for isa in ("9.1", "9.3", "9.4")),
    Pattern("P1-cp", f"{F}.1", threads(T0=[t_cp(T), mma(D, T), mma(D, T)]), ORDERED),
    *(Pattern("P1x", f"{F}.1", threads(T0=[mma(D, shape="a"), mma(D, shape="b")]), RACE, isa)
      for isa in ("9.1", "9.3", "9.4")),
    Pattern("P1-kind", "§9.7.18.6.2", KINDS, ORDERED, "9.1"),
    Pattern("P1-kind", "§9.7.18.6.2", KINDS, RACE, "9.3"),
    Pattern("P1-kind", "§9.7.18.6.2", KINDS, RACE, "9.4"),
    *(Pattern("P1y", f"{F}.1", threads(T0=[mma(T), mma(D, T)]), RACE, isa)
      for isa in ("9.1", "9.3", "9.4")),
    Pattern("P1y-commit", f"{F}.2",
            threads(T0=[mma(T), commit(B), RELAXED_WAIT, AFTER, mma(D, T)]), ORDERED),
    # P2: one thread, not pipelined
    *(Pattern("P2a", f"{F}.2", threads(T0=[t_st(T), WAIT_ST, t_ld(T)]), ORDERED, isa)
      for isa in ("9.1", "9.3", "9.4")),
    Pattern("P2a'", "§9.7.18.6.2", P2A, text("race"), "9.3"),
    Pattern("P2a'", "§9.7.18.6.2", P2A, ORDERED, "9.4"),
    Pattern("P2b", f"{F}.2",
            threads(T0=[mma(D), commit(B), relaxed(wait(B), CLUSTER), AFTER, t_ld(D)]), ORDERED),
    Pattern("P2b-a", f"{F}.2", threads(T0=[mma(D), commit(B), RELAXED_WAIT, t_ld(D)]), RACE),
    Pattern("P2b-a, acquire", "§9.7.18.6.3",
            threads(T0=[mma(D), commit(B), wait(B), t_ld(D)]), J3),
    Pattern("P2b-w", f"{F}.2", threads(T0=[mma(D), commit(B), t_ld(D)]), RACE),
    Pattern("P2c", f"{F}.2",
            threads(T0=[mma(D), BEFORE, arrive(B)], T1=[wait(B), AFTER, t_ld(D)]), RACE),
    # P3: two threads, pipelined
    Pattern("P3", f"{F}.3", P3, ORDERED, "9.1"),
    Pattern("P3", f"{F}.3", P3, ORDERED, "9.3"),
    Pattern("P3", f"{F}.3", P3, RACE, "9.4"),
    *(Pattern("P3'", f"{F}.3",
              threads(T0=[mma(D), BEFORE, arrive(B)], T1=[wait(B), AFTER, t_ld(D)]), RACE, isa)
      for isa in ("9.3", "9.4")),
    Pattern("P3 without before", f"{F}.3",
            threads(T0=[t_cp(T), arrive(B)], T1=[wait(B), AFTER, mma(D, T)]), text("race"), "9.3"),
    Pattern("P3 without after", f"{F}.3",
            threads(T0=[t_cp(T), BEFORE, RELAXED_ARRIVE], T1=[RELAXED_WAIT, mma(D, T)]), RACE,
            "9.3"),
    # P4: two threads, not pipelined
    Pattern("P4a", f"{F}.4",
            threads(T0=[t_ld(T), WAIT_LD, BEFORE, RELAXED_ARRIVE],
                    T1=[RELAXED_WAIT, AFTER, mma(T)]), ORDERED),
    Pattern("P4a-w", f"{F}.4",
            threads(T0=[t_ld(T), BEFORE, RELAXED_ARRIVE], T1=[RELAXED_WAIT, AFTER, mma(T)]), RACE),
    Pattern("P4a-o", "§9.7.18.8.5",
            threads(T0=[WAIT_LD, t_ld(T), BEFORE, arrive(B)], T1=[wait(B), AFTER, mma(T)]), RACE),
    Pattern("P4b", f"{F}.4",
            threads(T0=[mma(D), commit(B)], T1=[RELAXED_WAIT, AFTER, t_ld(D)]), ORDERED),
    Pattern("P4c", f"{F}.4",
            threads(T0=[mma(D), commit(B), RELAXED_WAIT, AFTER, BEFORE, relaxed(arrive(B2))],
                    T1=[relaxed(wait(B2)), AFTER, t_ld(D)]), ORDERED),
    Pattern("FEN-HALF before", "§9.7.18.11.1",
            threads(T0=[t_ld(T), WAIT_LD, BEFORE, RELAXED_ARRIVE], T1=[RELAXED_WAIT, mma(T)]),
            RACE),
    Pattern("FEN-HALF after", "§9.7.18.11.1",
            threads(T0=[t_ld(T), WAIT_LD, RELAXED_ARRIVE], T1=[RELAXED_WAIT, AFTER, mma(T)]), RACE),
    Pattern("no fences, acquire", "§9.7.18.6.3",
            threads(T0=[t_ld(T), WAIT_LD, arrive(B)], T1=[wait(B), mma(T)]), J3),
    # P5: registers
    Pattern("P5w", f"{F}.5", threads(T0=STORED), text("race"), "9.3"),
    Pattern("P5w", f"{F}.5", threads(T0=STORED), {"hardware": "ordered"}, "9.3"),
    Pattern("P5w", f"{F}.5", threads(T0=STORED), ORDERED, "9.4"),
    Pattern("P5s", f"{F}.5", P5S, text("race"), "9.3"),
    Pattern("P5s", f"{F}.5", P5S, ORDERED, "9.4"),
    *(Pattern("P5m", "§9.7.18.8.5", threads(T0=[t_ld(T, "r"), use("r"), mma(T)]), text("race"), isa)
      for isa in ("9.3", "9.4")),
    # P6
    Pattern("P6", "§9.7.18.8.5", threads(T0=[t_st(T), WAIT_ST, mma(D, T)]), ORDERED),
    Pattern("P6 D", "§9.7.18.8.5", threads(T0=[t_st(T), WAIT_ST, mma(T)]), ORDERED),
    Pattern("P6x", f"{F}.4", threads(T0=[t_st(T), BEFORE, arrive(B)],
                                     T1=[wait(B), AFTER, mma(D, T)]), RACE),
    Pattern("wait::st for a load", "§9.7.18.8.5", threads(T0=[t_ld(T), WAIT_ST, mma(T)]), RACE),
    Pattern("wait::ld for a store", "§9.7.18.8.5", threads(T0=[t_st(T), WAIT_LD, mma(D, T)]), RACE),
    Pattern("wait::ld of another warp", "§9.7.18.8.5",
            threads(T0=[t_ld(T), BEFORE, arrive(B)], T1=[wait(B), WAIT_LD, AFTER, mma(T)]), RACE),
    Pattern("commit for a load", "§9.7.18.12.1",
            threads(T0=[t_ld(T), mma(D), commit(B)], T1=[wait(B), AFTER, mma(T)]), RACE),
    Pattern("commit for another thread", "§9.7.18.12.1",
            threads(T0=[mma(D), BEFORE, arrive(B2)], T1=[wait(B2), mma(E), commit(B)],
                    T2=[wait(B), AFTER, t_ld(D)]), RACE),
    Pattern("commit for all prior", "§9.7.18.12.1",
            threads(T0=[mma(D), commit(B2), commit(B)], T1=[wait(B), AFTER, t_ld(D)],
                    T2=[wait(B2)]), ORDERED),
    Pattern("commit before mma", "§9.7.18.12.1",
            threads(T0=[commit(B), mma(D)], T1=[wait(B), AFTER, t_ld(D)]), RACE),
    # pairs in no list (§9.7.18.6.2)
    *(Pattern(name, "§9.7.18.6.2", threads(T0=steps), text("race"))
      for name, steps in (
          ("mma-ld", [mma(D), t_ld(D)]), ("ld-mma", [t_ld(D), mma(D)]),
          ("st-mma", [t_st(T), mma(D, T)]), ("st-cp", [t_st(T), t_cp(T)]),
          ("cp-ld", [t_cp(T), t_ld(T)]), ("cp-cp", [t_cp(T), t_cp(T)]),
          ("cp-st", [t_cp(T), t_st(T)]), ("ld-cp", [t_ld(T), t_cp(T)]),
      )),
    Pattern("mma A-read, cp", "§9.7.18.6.2", threads(T0=[mma(D, T), t_cp(T)]), RACE, "9.3"),
    Pattern("mma A-read, cp", "§9.7.18.6.2", threads(T0=[mma(D, T), t_cp(T)]), ORDERED, "9.4"),
    Pattern("shared operands are not piped", "§9.7.18.6.5",
            threads(T0=[mma(D, X), tma_load(X, B)]), RACE),
    # the seed: a load, its release, then its use
    Pattern("SEED bare", F,
            threads(T0=[t_ld(T, "r"), arrive(B), use("r")], T1=[wait(B), t_st(T)]), RACE),
    Pattern("SEED fixed", "§9.7.18.8.5",
            threads(T0=[t_ld(T, "r"), WAIT_LD, arrive(B), use("r")], T1=[wait(B), t_st(T)]), J3),
    Pattern("SEED used before", f"{F}.5",
            threads(T0=[t_ld(T, "r"), use("r"), arrive(B)], T1=[wait(B), t_st(T)]),
            {"strict": "race", "ptx": "race", "hardware": "ordered"}),
    Pattern("SEED copied before", f"{F}.5",
            threads(T0=[t_ld(T, "r"), copy("s", "r"), arrive(B), use("s")],
                    T1=[wait(B), t_st(T)]), RACE),
]  # fmt: skip


def quarter(warp: int) -> Region:
    return Region(Space.TMEM, 0, (400, 416), (32 * warp, 32 * warp + 32), "p")


def softmax(forgetful: int | None) -> Program:
    """Four warps store a quarter each of what one thread's mma reads."""
    full = mbar("b", 128)
    strands = []
    for w in range(4):
        waits = [] if w == forgetful else [WAIT_ST]
        strands.append(
            agent(f"W{w}", [t_st(quarter(w)), *waits, BEFORE, arrive(full)], warp=w, lanes=32)
        )
    whole = Region(Space.TMEM, 0, (400, 416), (0, 128), "p")
    return program(*strands, agent("mma", [wait(full), AFTER, mma(D, whole)], warp=4))


def lane_loads(second: list[ins.Instruction]) -> Program:
    """Two lanes of a warp load a row each; the first needs its result before its arrival."""
    empty = mbar("b", 2)
    rows = [Region(Space.TMEM, 0, T.columns, (n, n + 1), "t") for n in range(2)]
    return program(
        agent("L0", [t_ld(rows[0], "r"), use("r"), arrive(empty)], thread=0),
        agent("L1", [t_ld(rows[1], "r"), *second, arrive(empty), use("r")], thread=1),
        agent("mma", [wait(empty), AFTER, mma(T)], warp=1),
    )


TEXT_ONLY_RACE = {"strict": "race", "ptx": "race"}
TMA_WAITS = [tma_store(X), COMMIT_GROUP, wait_group_read()]

SYNCHRONIZATION = [
    Pattern("TM-XWARP-ST-MMA", F, softmax(None), ORDERED),
    *(Pattern(f"TM-XWARP-ST-MMA {w}", F, softmax(w), RACE) for w in (0, 3)),
    Pattern("TM-LANE used", f"{F}.5", lane_loads([use("r")]), {"hardware": "ordered"}),
    Pattern("TM-LANE unused", f"{F}.5", lane_loads([]), RACE),
    # mbarrier message passing (§9.7.15.16.13-16)
    Pattern("MB-MP", "§9.7.15.16.16",
            threads(T0=[st(X), arrive(B)], T1=[wait(B), ld(X)]), ORDERED),
    Pattern("MB-MP WAR", "§9.7.15.16.16",
            threads(T0=[ld(X), arrive(B)], T1=[wait(B), st(X)]), ORDERED),
    Pattern("MB-MP-rlx arrive", "§9.7.15.16.13",
            threads(T0=[st(X), RELAXED_ARRIVE], T1=[wait(B), ld(X)]), RACE),
    Pattern("MB-MP-rlx wait", "§9.7.15.16.16",
            threads(T0=[st(X), arrive(B)], T1=[RELAXED_WAIT, ld(X)]), RACE),
    Pattern("MB-MP-rlx fences", "§8.8",
            threads(T0=[st(X), fence(RELEASE), RELAXED_ARRIVE],
                    T1=[RELAXED_WAIT, fence(ACQUIRE), ld(X)]), ORDERED),
    Pattern("MB-MP-rlx release fence only", "§8.8",
            threads(T0=[st(X), fence(RELEASE), RELAXED_ARRIVE], T1=[RELAXED_WAIT, ld(X)]), RACE),
    Pattern("MB-MP-rlx fence after arrive", "§8.8",
            threads(T0=[st(X), RELAXED_ARRIVE, fence(RELEASE)], T1=[wait(B), ld(X)]), RACE),
    Pattern("MB-MP-rlx acquire fence as release", "§8.8",
            threads(T0=[st(X), fence(ACQUIRE), RELAXED_ARRIVE], T1=[wait(B), ld(X)]), RACE),
    Pattern("between arrive and wait", "§9.7.15.16.16",
            threads(T0=[arrive(B), st(X)], T1=[wait(B), ld(X)]), RACE),
    Pattern("cumulative", "§8.9.5",
            threads(T0=[st(X), arrive(B)], T1=[wait(B), arrive(B2)], T2=[wait(B2), ld(X)]),
            ORDERED),
    Pattern("relaxed hop", "§8.9.5",
            threads(T0=[st(X), arrive(B)], T1=[RELAXED_WAIT, arrive(B2)], T2=[wait(B2), ld(X)]),
            RACE),
    Pattern("relaxed hop out", "§8.9.5",
            threads(T0=[st(X), arrive(B)], T1=[wait(B), relaxed(arrive(B2))],
                    T2=[wait(B2), ld(X)]), RACE),
    # scopes (§8.7)
    Pattern("MB-XCTA", "§8.7", ctas(T0=[st(G), arrive(REMOTE)], T1=[wait(REMOTE), ld(G)]),
            {"strict": "race", "ptx": "race", "hardware": "ordered"}),
    Pattern("MB-XCTA wide", "§8.7",
            ctas(T0=[st(G), wide(arrive(REMOTE))], T1=[wide(wait(REMOTE)), ld(G)]), ORDERED),
    Pattern("MB-XCTA wide arrive", "§8.7",
            ctas(T0=[st(G), wide(arrive(REMOTE))], T1=[wait(REMOTE), ld(G)]), text("race")),
    Pattern("MB-XCTA wide wait", "§8.7",
            ctas(T0=[st(G), arrive(REMOTE)], T1=[wide(wait(REMOTE)), ld(G)]), text("race")),
    # transactions (§9.7.15.16.6)
    Pattern("MB-EARLY", "§9.7.15.16.6",
            threads(T0=[arrive(B), expect_tx(B), tma_load(X, B)], T1=[wait(B), ld(X)]), RACE),
    Pattern("MB-TXNEG", "§9.7.15.16.6",
            threads(T0=[tma_load(X, B), EXPECT], T1=[wait(B), ld(X)]), ORDERED),
    Pattern("MB-PAR-FRESH", "§9.7.15.16.16",
            threads(T0=[st(X), arrive(B)], T1=[wait(B, 1), ld(X)]), HANGS),  # late: it blocks
    # bulk copies (§8.9.1.1, §9.7.10.28)
    Pattern("TMA-RAW", "§9.7.10.28",
            threads(T0=[EXPECT, tma_load(X, B)], T1=[wait(B), ld(X)]), ORDERED),
    Pattern("TMA-RAW without wait", "§9.7.10.28", threads(T0=[EXPECT, tma_load(X, B), ld(X)]),
            RACE),
    Pattern("TMA-HIST", "§8.9.1.1",
            threads(T0=[st(Y), EXPECT, tma_load(X, B)], T1=[wait(B), ld(Y)]), RACE),
    Pattern("TMA-ST", "§9.7.15.4",
            threads(T0=[st(X), proxy_fence(), bar(2)], T1=[bar(2), tma_store(X)]), ORDERED),
    Pattern("TMA-ST without fence", "§9.7.15.4",
            threads(T0=[st(X), bar(2)], T1=[bar(2), tma_store(X)]), RACE),
    Pattern("TMA-ST fence of global", "§9.7.15.4",
            threads(T0=[st(X), proxy_fence(Space.GLOBAL), bar(2)], T1=[bar(2), tma_store(X)]),
            RACE),
    Pattern("TMA-ST fence of shared", "§9.7.15.4",
            threads(T0=[st(X), proxy_fence(Space.SHARED), bar(2)], T1=[bar(2), tma_store(X)]),
            ORDERED),
    Pattern("TMA-ST fence before the store", "§9.7.15.4",
            threads(T0=[proxy_fence(), st(X), bar(2)], T1=[bar(2), tma_store(X)]), RACE),
    Pattern("TMA-ST-WAR", "§9.7.10.28",
            threads(T0=[*TMA_WAITS, bar(2)], T1=[bar(2), st(X)]), ORDERED),
    Pattern("TMA-ST-WAR without wait", "§9.7.10.28",
            threads(T0=[tma_store(X), COMMIT_GROUP, bar(2)], T1=[bar(2), st(X)]), RACE),
    Pattern("TMA-ST-WAR late wait", "§9.7.10.28",
            threads(T0=[tma_store(X), COMMIT_GROUP, bar(2), wait_group_read()], T1=[bar(2), st(X)]),
            RACE),
    Pattern("TMA-ST-WAR other's wait", "§9.7.10.28",
            threads(T0=[tma_store(X), COMMIT_GROUP, bar(2)],
                    T1=[wait_group_read(), bar(2), st(X)]), RACE),
    Pattern("TMA-ST-WAR uncommitted", "§9.7.10.28",
            threads(T0=[tma_store(X), wait_group_read(), bar(2)], T1=[bar(2), st(X)]), RACE),
    Pattern("TMA-ST-WAR newest group", "§9.7.10.28",
            threads(T0=[tma_store(X), COMMIT_GROUP, wait_group_read(1), st(X)]), RACE),
    Pattern("TMA-ST-MP", "§9.7.10.28",
            threads(T0=[tma_store(X, G), COMMIT_GROUP, wait_group_read(), arrive(B)],
                    T1=[wait(B), ld(G)]), RACE),
    Pattern("TMA-ST-MP full wait", "§9.7.10.28",
            threads(T0=[tma_store(X, G), COMMIT_GROUP, wait_group(), arrive(B)],
                    T1=[wait(B), ld(G)]), ORDERED),
    Pattern("generic read, TMA refill", "§8.6",
            threads(T0=[ld(X), arrive(B)], T1=[wait(B), tma_load(X, B2)]),
            {"strict": "race", "ptx": "ordered", "hardware": "ordered"}),
    Pattern("generic read, fence, TMA refill", "§9.7.15.4",
            threads(T0=[ld(X), proxy_fence(), arrive(B)], T1=[wait(B), tma_load(X, B2)]), ORDERED),
    # cp.async (§9.7.10.28.3)
    Pattern("CPA-LANE", "§9.7.10.28.3",
            lanes(L0=[cp_async(X), cp_wait(None)], L1=[ld(X)]), text("race")),
    Pattern("CPA-LANE syncwarp", "§9.7.15.2",
            lanes(L0=[cp_async(X), cp_wait(None), syncwarp()], L1=[syncwarp(), ld(X)]), ORDERED),
    Pattern("CPA own", "§9.7.10.28.3", threads(T0=[cp_async(X), cp_wait(None), ld(X)]), ORDERED),
    Pattern("CPA uncommitted", "§9.7.10.28.3", threads(T0=[cp_async(X), cp_wait(0), ld(X)]), RACE),
    Pattern("CPA newest group", "§9.7.10.28.3",
            threads(T0=[cp_async(X), CP_COMMIT, cp_wait(1), ld(X)]), RACE),
    Pattern("CPA arrive", "§9.7.15.16.15",
            threads(T0=[cp_async(X), cp_arrive(B)], T1=[wait(B), ld(X)]), ORDERED),
    Pattern("CPA arrive, issuer's stores", "§8.9.1.1",
            threads(T0=[st(Y), cp_async(X), cp_arrive(B)], T1=[wait(B), ld(Y)]), RACE),
    Pattern("CPA plain arrive", "§8.9.1.1",
            threads(T0=[cp_async(X), arrive(B)], T1=[wait(B), ld(X)]), RACE),
    Pattern("CPA-MMA", "§9.7.15.4",
            threads(T0=[cp_async(X), cp_wait(None), proxy_fence(), bar(2)],
                    T1=[bar(2), AFTER, mma(D, X)]), ORDERED),
    Pattern("CPA-MMA without fence", "§9.7.15.4",
            threads(T0=[cp_async(X), cp_wait(None), bar(2)], T1=[bar(2), AFTER, mma(D, X)]), RACE),
    # shared memory and tcgen05 (§9.7.18.6.5)
    Pattern("st, mma", "§9.7.18.6.5",
            threads(T0=[st(X), proxy_fence(), arrive(B)], T1=[wait(B), AFTER, mma(D, X)]), ORDERED),
    Pattern("st, mma without fence", "§9.7.18.6.5",
            threads(T0=[st(X), arrive(B)], T1=[wait(B), AFTER, mma(D, X)]), RACE),
    Pattern("st, mma of one thread without fence", "§9.7.18.6.5", threads(T0=[st(X), mma(D, X)]),
            RACE),
    Pattern("TMA, mma", "§9.7.10.28",
            threads(T0=[EXPECT, tma_load(X, B)], T1=[wait(B), AFTER, mma(D, X)]), ORDERED),
    Pattern("TMA, relaxed wait, mma", "§9.7.18.11.1",
            threads(T0=[EXPECT, tma_load(X, B)], T1=[RELAXED_WAIT, AFTER, mma(D, X)]), RACE),
    Pattern("MMA-SLOT", "§9.7.18.12.1",
            threads(T0=[mma(D, X), commit(B)], T1=[wait(B), tma_load(X, B2)]), ORDERED),
    Pattern("MMA-SLOT plain arrive", "§9.7.18.12.1",
            threads(T0=[mma(D, X), BEFORE, arrive(B)], T1=[wait(B), tma_load(X, B2)]), RACE),
    Pattern("MMA-SLOT generic refill", "§8.6",
            threads(T0=[mma(D, X), commit(B)], T1=[wait(B), st(X)]),
            {"strict": "race", "ptx": "ordered", "hardware": "ordered"}),
    Pattern("MMA-SLOT fenced generic refill", "§9.7.15.4",
            threads(T0=[mma(D, X), commit(B)], T1=[wait(B), proxy_fence(), st(X)]), ORDERED),
    Pattern("commit, issuer's stores", "§9.7.18.12.1",
            threads(T0=[st(Y), mma(D), commit(B)], T1=[wait(B), ld(Y)]), RACE),
    Pattern("MMA-PEER", "§9.7.18.12.1",
            ctas(T0=[mma(D, X), commit(B)], T1=[wait(mbar("b", cta=1)), tma_load(X, REMOTE)]),
            always("deadlock")),
    # execution barriers (§9.7.15.1-3)
    Pattern("bar", "§9.7.15.1", threads(T0=[st(X), bar(2)], T1=[bar(2), ld(X)]), ORDERED),
    Pattern("bar.arrive gives", "§9.7.15.1",
            threads(T0=[st(X), bar_arrive(2)], T1=[bar(2), ld(X)]), ORDERED),
    Pattern("bar.arrive receives nothing", "§9.7.15.1",
            threads(T0=[st(X), bar(2)], T1=[bar_arrive(2), ld(X)]), RACE),
    *(Pattern(f"bar does not complete {name}", "§9.7.15.1",
              threads(T0=[first, bar(2)], T1=[bar(2), AFTER, second]), RACE)
      for name, first, second in (
          ("tcgen05.ld", t_ld(T), mma(T)), ("mma", mma(D), t_ld(D)),
          ("cp.async", cp_async(X), ld(X)), ("a TMA store", tma_store(X), st(X)))),
    Pattern("other lanes", "§3.2", lanes(L0=[st(X)], L1=[st(Y), ld(X)]), text("race")),
    # data-dependent branches
    Pattern("guarded wait::ld", "§9.7.18.8.5",
            threads(T0=[t_ld(T), *when("c", WAIT_LD), BEFORE, arrive(B)],
                    T1=[wait(B), AFTER, mma(T)]), RACE),
    Pattern("guarded ld and wait::ld", "§9.7.18.8.5",
            threads(T0=[*when("c", t_ld(T), WAIT_LD), BEFORE, arrive(B)],
                    T1=[wait(B), AFTER, mma(T)]), ORDERED),
    Pattern("guarded st", "§9.7.15.16.16",
            threads(T0=[*when("c", st(X)), arrive(B)], T1=[wait(B), ld(X)]), ORDERED),
    Pattern("guarded st, no arrive", "§9.7.15.16.16",
            threads(T0=[arrive(B), *when("c", st(X))], T1=[wait(B), ld(X)]), RACE),
    Pattern("guarded wait", "§9.7.15.16.16",
            threads(T0=[st(X), arrive(B)], T1=[*when("c", wait(B)), ld(X)]), RACE),
    Pattern("other outcome", "§9.7.15.16.16",
            threads(T0=[*when("c", st(X)), *when("c", ld(X), outcome=False)]), ORDERED),
    # lifetimes of tensor memory (§9.7.18.7)
    Pattern("TM-ALLOC", "§9.7.18.7.1",
            threads(T0=[ins.Tcgen05Alloc(T, Y), bar(2)], T1=[bar(2), ld(Y)]), ORDERED),
    Pattern("TM-ALLOC without bar", "§9.7.18.7.1",
            threads(T0=[ins.Tcgen05Alloc(T, Y)], T1=[ld(Y)]), RACE),
    Pattern("TM-ALLOC own use", "§9.7.18.6.1",
            threads(T0=[ins.Tcgen05Alloc(T), t_st(T)]), ORDERED),
    Pattern("TM-DEALLOC", "§9.7.18.7.1",
            threads(T0=[t_ld(T), WAIT_LD, bar(2)], T1=[bar(2), ins.Tcgen05Dealloc(T)]),
            {"ptx": "ordered", "hardware": "ordered"}),
    Pattern("TM-DEALLOC without wait", "§9.7.18.7.1",
            threads(T0=[t_ld(T), bar(2)], T1=[bar(2), ins.Tcgen05Dealloc(T)]), always("misuse")),
    Pattern("TM-DEALLOC own load", "§9.7.18.7.1",
            threads(T0=[t_ld(T), ins.Tcgen05Dealloc(T)]), always("misuse")),
    Pattern("TM-DEALLOC own load waited for", "§9.7.18.7.1",
            threads(T0=[t_ld(T), WAIT_LD, ins.Tcgen05Dealloc(T)]), ORDERED),
]  # fmt: skip


def cluster(arrive_sem: ins.Sem, *before: ins.Instruction) -> Program:
    return ctas(
        T0=[st(G), *before, cluster_arrive(arrive_sem), cluster_wait()],
        T1=[cluster_arrive(), cluster_wait(), ld(G)],
    )


CLUSTERS = [
    Pattern("CLB", "§9.7.15.3", cluster(RELEASE), ORDERED),
    Pattern("CLB-RLX", "§9.7.15.3", cluster(RELAXED), RACE),
    Pattern("CLB-RLX fence", "§9.7.15.3", cluster(RELAXED, fence(ACQ_REL, CLUSTER)), ORDERED),
    Pattern("CLB-RLX narrow fence", "§8.7", cluster(RELAXED, fence(ACQ_REL)), text("race")),
    Pattern("CLB between arrive and wait", "§9.7.15.3",
            ctas(T0=[cluster_arrive(), st(G), cluster_wait()],
                 T1=[cluster_arrive(), cluster_wait(), ld(G)]), RACE),
    Pattern("CLB does not complete a copy", "§9.7.15.3",
            ctas(T0=[tma_store(X, G), cluster_arrive(), cluster_wait()],
                 T1=[cluster_arrive(), cluster_wait(), ld(G)]), RACE),
]  # fmt: skip

AGREED = [*TCGEN05, *SYNCHRONIZATION, *CLUSTERS]


@pytest.mark.parametrize("pattern", AGREED, ids=str)
def test_verdict_of_the_text(pattern: Pattern) -> None:
    for name, verdict in pattern.expected.items():
        assert check(pattern.program, reading_named(name, pattern.isa)).verdict == verdict, name


# --- patterns on which the model and the text differed when written -------------------------------

STARTED = [wait(B3), mma(D), commit(B)]
"""A commit whose mma cannot begin before an acquire wait."""

SHIFTED = Region(Space.TMEM, 0, (T.columns[0] + 8, T.columns[1] + 8), (0, 128), "t")

LATE = agent("late", [st(Z)] * 12 + [arrive(B2)], warp=6)


def apart(one: list[Instruction], two: list[Instruction], *others: Agent) -> Program:
    """Two lanes of warp 0, each from position 0, and other agents."""
    lanes = [
        agent(f"L{t}", [At(n, i) for n, i in enumerate(steps)], thread=t)
        for t, steps in enumerate((one, two))
    ]
    return program(*lanes, *others)


APART = {"strict": "race", "ptx": "race", "hardware": "ordered"}
"""Ordered where the lanes of a warp run together."""
FAR_X = replace(X, cta=1)
KNOWN = mbar("b", None, bytes_known=True)

REVIEWED = [
    # One warp, bar.warp.sync between the lanes: a pipelined pair in 9.4 too (§9.7.18.6.4.3).
    Pattern("P3 one warp", f"{F}.3",
            lanes(T0=[t_cp(T), BEFORE, syncwarp()], T1=[syncwarp(), AFTER, mma(D, T)]), ORDERED),
    # complete_tx "does not transitively establish ordering" with the issuer's earlier accesses,
    # whatever they were released to (§8.9.1.1).
    Pattern("TMA-HIST released elsewhere", "§8.9.1.1",
            threads(T0=[st(Y), arrive(B2), EXPECT, tma_load(X, B)], T1=[wait(B), ld(Y)]), RACE),
    # commit publishes tracked tcgen05 work, not the issuer's stores; the arrive at B2 need not
    # be performed when the mma begins, so neither need the store before it (§9.7.18.12.1).
    Pattern("commit, stores released elsewhere", "§9.7.18.12.1",
            threads(T0=[st(Y), arrive(B2), *STARTED], T1=[wait(B), ld(Y)], T2=[arrive(B3)]), RACE),
    # wait_all and wait_group make writes visible to the executing thread only (§9.7.10.28).
    Pattern("commit, own cp.async", "§9.7.10.28.3",
            threads(T0=[cp_async(X), cp_wait(None), *STARTED], T1=[wait(B), ld(X)],
                    T2=[arrive(B3)]), RACE),
    Pattern("commit, own bulk store", "§9.7.10.28",
            threads(T0=[tma_store(X, G), COMMIT_GROUP, wait_group(), *STARTED],
                    T1=[wait(B), ld(G)], T2=[arrive(B3)]), RACE),
    Pattern("complete_tx, own cp.async", "§8.9.1.1",
            threads(T0=[cp_async(X), cp_wait(None), EXPECT, tma_load(Y, B)], T1=[wait(B), ld(X)]),
            RACE),
    # The relaxed read itself must be morally strong with the arrive: .cta does not reach (§8.8).
    Pattern("narrow relaxed wait, wide fence", "§8.8",
            ctas(T0=[st(G), wide(arrive(REMOTE))],
                 T1=[relaxed(wait(REMOTE)), fence(ACQUIRE, CLUSTER), ld(G)]), text("race")),
    # The scope of a tcgen05.fence is that of its carrier (§9.7.18.6.3).
    Pattern("tcgen05.fence over a narrow carrier", "§9.7.18.6.3",
            ctas(T0=[t_ld(T), WAIT_LD, BEFORE, relaxed(arrive(REMOTE))],
                 T1=[relaxed(wait(REMOTE)), AFTER, mma(T)]), text("race")),
    # Bulk groups hold copies with bulk_group completion only; this one signals an mbarrier.
    Pattern("wait_group for a TMA load", "§9.7.10.28",
            threads(T0=[EXPECT, tma_load(X, B), COMMIT_GROUP, wait_group(), ld(X)]), RACE),
    # alloc is synchronous: nothing to complete, so before_thread_sync covers it (§9.7.18.6.1).
    Pattern("TM-ALLOC with fences", "§9.7.18.7.1",
            threads(T0=[ins.Tcgen05Alloc(T), BEFORE, bar(2)], T1=[bar(2), AFTER, t_st(T)]),
            ORDERED),
    # tcgen05.wait::ld is no after_thread_sync for what an acquire wait observed (§9.7.18.11.1).
    Pattern("wait::ld instead of after", "§9.7.18.11.1",
            threads(T0=[t_ld(T), WAIT_LD, BEFORE, RELAXED_ARRIVE], T1=[wait(B), WAIT_LD, mma(T)]),
            {"strict": "race"}),
    # q may be k: then nobody needed r before the arrive.
    Pattern("register use on one outcome", f"{F}.5",
            threads(T0=[t_ld(T, "r"), copy("q", "k"), *when("c", copy("q", "r")), use("q"),
                        arrive(B), use("r")], T1=[wait(B), mma(T)]), RACE),
    # atom.cta of two CTAs are not morally strong: an update may be lost (§8.7, §8.10.3).
    Pattern("atomics of narrow scope", "§8.7",
            ctas(T0=[ins.Atomic(G, scope=ins.Scope.CTA)], T1=[ins.Atomic(G)]), text("race")),
    # A wait is for the executing thread's copies, in step or not (§9.7.10.28.3).
    Pattern("wait_all of another lane", "§9.7.10.28.3",
            program(agent("L0", [At(0, cp_async(X))], thread=0),
                    agent("L1", [At(1, cp_wait(None)), At(2, ld(X))], thread=1)), RACE),
    Pattern("cp.async arrive of another lane", "§9.7.15.16.15",
            program(agent("L0", [At(0, cp_async(X))], thread=0),
                    agent("L1", [At(1, cp_arrive(B))], thread=1),
                    agent("T2", [wait(B), ld(X)], warp=1)), RACE),
    # L1 runs ahead while L0 waits; L0's load then loses the order of its own wait (false alarm).
    Pattern("a lane waits while another goes on", "§3.2",
            program(agent("L0", [At(0, wait(B)), At(1, ld(X))], thread=0),
                    agent("L1", [At(2, BEFORE), At(3, BEFORE), At(4, BEFORE)], thread=1),
                    agent("T2", [st(X), arrive(B)], warp=1)), ORDERED),
    # L0's load comes after L1's arrive, so the lanes are not in step: nothing orders X.
    Pattern("a lane waits for a later position", "§3.2",
            program(agent("L0", [At(0, wait(B)), At(1, ld(X))], thread=0),
                    agent("L1", [At(5, arrive(B)), At(6, st(X))], thread=1)), RACE),
    # L0 never waits: its store can run while L1 still polls, whatever positions say.
    Pattern("a lane that has to wait is not in step", "§3.2",
            program(agent("L0", [At(0, EXPECT), At(1, tma_load(X, B)), At(5, st(X))], thread=0),
                    agent("L1", [At(0, wait(B)), At(1, ld(X))], thread=1)), RACE),
    # Threads of one CTA: .cta fences are enough around a relaxed cluster barrier (false alarm).
    Pattern("CLB-RLX narrow fence, one CTA", "§8.7",
            threads(T0=[st(X), fence(RELEASE), cluster_arrive(RELAXED), cluster_wait()],
                    T1=[cluster_arrive(), cluster_wait(), ld(X)]), ORDERED),
    # st -> ld pairs whatever the address, and the ld is complete (false alarm: when nothing
    # conflicts with U, its load is left out of the graph, and the store has no rider).
    Pattern("st, then a completed ld of other columns", "§9.7.18.6.2",
            threads(T0=[t_st(T), t_ld(U), WAIT_LD, BEFORE, arrive(B)],
                    T1=[wait(B), AFTER, mma(D, T)]), ORDERED),
    # cp -> mma pairs at the same address only; a strict reading wants the same start.
    Pattern("cp, mma at another start", "§9.7.18.6.2",
            threads(T0=[t_cp(T), mma(D, SHIFTED)]), {"strict": "race"}),
    # One agent stands for 32 lanes, each of which reads all of X: no order without syncwarp.
    Pattern("lanes of one agent", "§9.7.10.28.3", warps(W=[cp_async(X), cp_wait(None), ld(X)]),
            text("race")),
    # An elected lane issues the asynchronous operation; the stores are those of 32 lanes.
    Pattern("elected TMA store", "§8.9.5",
            warps(W=[st(X), proxy_fence(), tma_store(X, G)]), APART),
    Pattern("elected TMA store after syncwarp", "§9.7.15.2",
            warps(W=[st(X), proxy_fence(), syncwarp(), tma_store(X, G)]), ORDERED),
    Pattern("elected mma", "§8.9.5",
            warps(W=[st(X), proxy_fence(), mma(D, None, X)]), APART),
    Pattern("elected mma after syncwarp", "§9.7.15.2",
            warps(W=[st(X), proxy_fence(), syncwarp(), AFTER, mma(D, None, X)]), ORDERED),
    Pattern("group of the elected lane", "§9.7.10.28",
            warps(W=[tma_store(X, G), COMMIT_GROUP, wait_group_read(), st(X)]),
            APART),
    # An implicit proxy fence lets generic accesses follow, not the async proxy of another CTA.
    Pattern("implicit fence, then a bulk copy of another CTA", "§8.9.5",
            ctas(T0=[tma_store(X, G), COMMIT_GROUP, wait_group(), wide(arrive(REMOTE))],
                 T1=[wide(wait(REMOTE)), tma_store(FAR_X, G)]),
            {"strict": "race", "ptx": "ordered", "hardware": "ordered"}),
    # The arrival of an asynchronous operation uses the object too: not before its init (D11).
    Pattern("init by another thread, commit", "§9.7.15.16.3",
            threads(T0=[init(KNOWN)], T1=[mma(D), commit(KNOWN)]), always("misuse")),
    Pattern("init by another thread, TMA", "§9.7.15.16.3",
            threads(T0=[init(KNOWN), expect_tx(KNOWN), arrive(KNOWN)], T1=[tma_load(X, KNOWN)]),
            always("misuse")),
    Pattern("init, bar, commit, wait, inval", "§9.7.15.16.3",
            threads(T0=[init(KNOWN), bar(2), wait(KNOWN), inval(KNOWN)],
                    T1=[bar(2), AFTER, mma(D), commit(KNOWN)]), ORDERED),
    Pattern("inval before the commit has arrived", "§9.7.15.16.3",
            threads(T0=[init(KNOWN), mma(D), commit(KNOWN), inval(KNOWN)]), always("misuse")),
    # TMA-HIST: the bytes of a copy say nothing about what its issuer had seen (C5).
    Pattern("TMA-HIST, acquired", "§8.9.1.1",
            threads(T0=[st(Y), arrive(B2)], T1=[wait(B2), tma_load(X, B)],
                    T2=[arrive(B, expect=KILO), wait(B), ld(Y)]), RACE),
    # fence.mbarrier_init is about mbarrier.init only: it does not hand over an alloc (§9.7.15.4).
    Pattern("fence.mbarrier_init after alloc", "§9.7.15.4",
            threads(T0=[ins.Tcgen05Alloc(T), INIT_FENCE, RELAXED_ARRIVE],
                    T1=[wait(B), AFTER, t_st(T)]),
            {"strict": "misuse", "ptx": "misuse", "hardware": "misuse"}),
    # Lanes that wait on their own run apart: neither has the other's fences, nor its pipe.
    Pattern("after_thread_sync of another lane", "§3.2",
            apart([wait(B), AFTER], [wait(B2), mma(T)], LATE,
                  agent("P", [t_ld(T, "r"), WAIT_LD, use("r"), BEFORE, arrive(B)], warp=1)), RACE),
    Pattern("after_thread_sync of the same lane", "§3.2",
            apart([wait(B2)], [wait(B), AFTER, mma(T)], LATE,
                  agent("P", [t_ld(T, "r"), WAIT_LD, use("r"), BEFORE, arrive(B)], warp=1)),
            ORDERED),
    Pattern("proxy fence of another lane", "§3.2",
            apart([wait(B), proxy_fence()], [relaxed(wait(B2)), mma(D, None, X)], LATE,
                  agent("P", [st(X), arrive(B)], warp=1)), RACE),
    Pattern("mma of two lanes apart", "§9.7.18.6.2",
            apart([wait(B), mma(D)], [wait(B2), mma(D)], LATE, agent("P", [arrive(B)], warp=1)),
            {"hardware": "race"}),
    Pattern("mma of two lanes at one position", "§9.7.18.6.2",
            program(agent("L0", [At(0, mma(D))], thread=0), agent("L1", [At(0, mma(D))], thread=1)),
            {"hardware": "race"}),
    Pattern("mma of two lanes in step", "§9.7.18.6.2",
            program(agent("L0", [At(0, mma(D))], thread=0), agent("L1", [At(1, mma(D))], thread=1)),
            {"hardware": "ordered"}),
]  # fmt: skip


@pytest.mark.parametrize("pattern", REVIEWED, ids=str)
def test_what_a_review_found(pattern: Pattern) -> None:
    for name, verdict in pattern.expected.items():
        assert check(pattern.program, reading_named(name, pattern.isa)).verdict == verdict, name


def test_a_location_does_not_change_the_order_of_what_it_keeps() -> None:
    """False alarm: with `location`, the store to U that completes the load of T is left out."""
    piped = threads(T0=[t_ld(T), t_st(U), WAIT_ST, BEFORE, arrive(B)], T1=[wait(B), AFTER, mma(T)])
    assert check(piped).verdict == "ordered"
    assert check(piped, location="t").verdict == "ordered"
