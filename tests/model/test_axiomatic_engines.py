"""The two engines of the axiomatic model on small tests: they must find the same.

Each row is a program, with threads in columns, and the number of its final states. The engines
share event graphs and the text of the axioms; values, reads-from, coherence and causality are
computed twice, by enumeration and as formulas for z3.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, NamedTuple

import pytest
from lastread.litmus.language.parser import parse
from lastread.model.axiomatic.axioms import AXIOMS
from lastread.model.axiomatic.code import Test as Litmus
from lastread.model.axiomatic.explore import explore
from lastread.model.axiomatic.outcome import Outcome
from lastread.model.program import TimeLimit
from lastread.model.readings import ISA_VERSIONS, reading_named


class Row(NamedTuple):
    """`threads`: where each runs, then its instructions; `states`: how many in ISA 9.4."""

    name: str
    init: str
    threads: tuple[str, ...]
    seen: str
    states: int


def make(row: Row) -> Litmus:
    """The row as a file, parsed."""
    places, columns = [], []
    for number, thread in enumerate(row.threads):
        place, _, code = thread.partition(":: ")
        places.append(f"P{number}@{place}")
        columns.append([step.strip() for step in code.split(";")])
    rows = [" | ".join(cells) + " ;" for cells in zip_longest(*columns, fillvalue="")]
    lines = [f"PTX {row.name}", "{", row.init, "}", " | ".join(places) + " ;", *rows]
    return parse("\n".join([*lines, f"locations [{row.seen}]", "exists true"]), row.name)


ROWS = (
    Row("MP", "", (
        "cta 0:: st.weak x, 1; st.release.gpu y, 1",
        "cta 1:: ld.acquire.gpu r0, y; ld.weak r1, x",
    ), "P1:r0; P1:r1;", 3),
    Row("MP.relaxed", "", (
        "cta 0:: st.weak x, 1; st.relaxed.gpu y, 1",
        "cta 1:: ld.relaxed.gpu r0, y; ld.weak r1, x",
    ), "P1:r0; P1:r1;", 4),
    Row("MP.cta", "", (
        "cta 0:: st.weak x, 1; st.release.cta y, 1",
        "cta 1:: ld.acquire.gpu r0, y; ld.weak r1, x",
    ), "P1:r0; P1:r1;", 4),
    Row("MP.fences", "", (
        "cta 0:: st.weak x, 1; fence.acq_rel.gpu; st.relaxed.gpu y, 1",
        "cta 1:: ld.relaxed.gpu r0, y; fence.acq_rel.gpu; ld.weak r1, x",
    ), "P1:r0; P1:r1;", 3),
    Row("MP.atomics", "", (
        "cta 0:: st.weak x, 1; st.release.gpu y, 1",
        "cta 1:: atom.relaxed.gpu.add r0, y, 1",
        "cta 2:: ld.acquire.gpu r0, y; ld.weak r1, x",
    ), "P1:r0; P2:r0; P2:r1;", 8),
    Row("SB", "", (
        "cta 0:: st.relaxed.gpu x, 1; fence.acq_rel.gpu; ld.relaxed.gpu r0, y",
        "cta 1:: st.relaxed.gpu y, 1; fence.acq_rel.gpu; ld.relaxed.gpu r0, x",
    ), "P0:r0; P1:r0;", 4),
    Row("SB.sc", "", (
        "cta 0:: st.relaxed.gpu x, 1; fence.sc.gpu; ld.relaxed.gpu r0, y",
        "cta 1:: st.relaxed.gpu y, 1; fence.sc.gpu; ld.relaxed.gpu r0, x",
    ), "P0:r0; P1:r0;", 3),
    Row("IRIW.sc", "", (
        "cta 0:: st.relaxed.gpu x, 1",
        "cta 1:: ld.relaxed.gpu r0, x; fence.sc.gpu; ld.relaxed.gpu r1, y",
        "cta 2:: ld.relaxed.gpu r0, y; fence.sc.gpu; ld.relaxed.gpu r1, x",
        "cta 3:: st.relaxed.gpu y, 1",
    ), "P1:r0; P1:r1; P2:r0; P2:r1;", 15),
    Row("LB.data", "", (
        "cta 0:: ld.relaxed.gpu r0, x; st.relaxed.gpu y, r0",
        "cta 1:: ld.relaxed.gpu r0, y; st.relaxed.gpu x, r0",
    ), "P0:r0; P1:r0; x;", 1),
    Row("LB.control", "", (
        "cta 0:: ld.relaxed.gpu r0, x; bne r0, 1, E0; st.relaxed.gpu y, 1; E0:",
        "cta 1:: ld.relaxed.gpu r0, y; bne r0, 1, E1; st.relaxed.gpu x, 1; E1:",
    ), "P0:r0; P1:r0;", 1),
    Row("CoRR.weak", "", (
        "cta 0:: st.weak x, 1",
        "cta 1:: ld.weak r0, x; ld.weak r1, x",
    ), "P1:r0; P1:r1;", 4),
    Row("2+2W", "", (
        "cta 0:: st.relaxed.gpu x, 1; st.relaxed.gpu y, 2",
        "cta 1:: st.relaxed.gpu y, 1; st.relaxed.gpu x, 2",
    ), "x; y;", 4),
    Row("WW.race", "", ("cta 0:: st.weak x, 1", "cta 1:: st.weak x, 2"), "x;", 2),
    Row("increments", "", (
        "cta 0:: atom.relaxed.gpu.add r0, x, 1",
        "cta 1:: atom.relaxed.gpu.add r0, x, 1",
        "cta 2:: atom.relaxed.gpu.add r0, x, 1",
    ), "x; P0:r0; P1:r0; P2:r0;", 6),
    Row("increments.cta", "", (
        "cta 0:: atom.relaxed.cta.add r0, x, 1",
        "cta 1:: atom.relaxed.gpu.add r0, x, 1",
    ), "x; P0:r0; P1:r0;", 5),
    Row("functions", "x = 6; y = 3;", (
        "cta 0:: ld.relaxed.gpu r0, x; ld.relaxed.gpu r1, y; mul r2, r0, r1; div r3, r0, r1;"
        "and r4, r0, r1; or r5, r0, r1; xor r6, r0, r1; max r7, r0, r1; sub r0, r1, r0",
        "cta 1:: st.relaxed.gpu x, 10; st.relaxed.gpu y, 0",
    ), "P0:r0; P0:r2; P0:r3; P0:r4; P0:r5; P0:r6; P0:r7;", 4),
    Row("cas", "", (
        "cta 0:: atom.relaxed.gpu.cas r0, x, 0, 1",
        "cta 1:: atom.relaxed.gpu.cas r0, x, 0, 2",
    ), "x; P0:r0; P1:r0;", 2),
    Row("pointer", "x = 5; y = 7; P0:r0 = &x;", (
        "cta 0:: st.weak y, 9; st.release.gpu p, &y; st.weak r0, 6",
        "cta 1:: mov r2, &x; ld.acquire.gpu r0, p; beq r0, 0, E1; mov r2, r0; E1:;"
        "ld.weak r1, [r2]",
    ), "P1:r0; P1:r1;", 3),
    Row("spin", "", (
        "cta 0:: st.weak x, 1; st.release.gpu y, 1",
        "cta 1:: L1:; ld.acquire.gpu r0, y; bne r0, 1, L1; ld.weak r1, x",
    ), "P1:r0; P1:r1;", 1),
    Row("spin.cas", "", (
        "cta 0:: L0:; atom.acquire.gpu.cas r0, l, 0, 1; bne r0, 0, L0; ld.weak r1, x;"
        "add r1, r1, 1; st.weak x, r1; st.release.gpu l, 0",
        "cta 1:: L1:; atom.acquire.gpu.cas r0, l, 0, 1; bne r0, 0, L1; ld.weak r1, x;"
        "add r1, r1, 1; st.weak x, r1; st.release.gpu l, 0",
    ), "x; P0:r1; P1:r1;", 2),
    Row("count", "", (
        "cta 0:: L0:; add r1, r1, 1; ld.relaxed.gpu r0, x; bne r0, 1, L0",
        "cta 1:: st.relaxed.gpu x, 1",
    ), "P0:r1;", 2),
    Row("bar", "shared x;", (
        "cta 0:: st.weak x, 1; bar.sync 0; ld.weak r0, y",
        "cta 0:: bar.sync 0; ld.weak r0, x; st.weak y, 1",
    ), "P0:r0; P1:r0;", 2),
    Row("bar.register", "", (
        "cta 0:: ld.relaxed.cta r1, n; st.weak x, 1; bar.cta.sync 1, r1",
        "cta 0:: st.relaxed.cta n, 1; bar.cta.sync 1, 1; ld.weak r0, x",
    ), "P0:r1; P1:r0;", 3),
    Row("mbarrier", "shared x; mbarrier b count 1;", (
        "cta 0:: st.weak x, 1; mbarrier.arrive b",
        "cta 0:: mbarrier.try_wait.parity b, 0; ld.weak r0, x",
    ), "P1:r0;", 1),
    Row("mbarrier.test", "shared x; mbarrier b count 1;", (
        "cta 0:: st.weak x, 1; mbarrier.arrive b",
        "cta 0:: mbarrier.test_wait.parity r0, b, 0; ld.weak r1, x",
    ), "P1:r0; P1:r1;", 3),
    Row("mbarrier.cycle", "shared x; mbarrier b count 1;", (
        "cta 0:: ld.relaxed.cta r0, x; bne r0, 1, E0; mbarrier.arrive b; E0:",
        "cta 0:: mbarrier.test_wait.parity r0, b, 0; st.relaxed.cta x, r0",
    ), "P0:r0; P1:r0; x;", 1),
    Row("tma", "global g = 7; shared x; mbarrier b count 1;", (
        "cta 0:: mbarrier.arrive.expect_tx b, 4; cp.async.bulk x, g, b",
        "cta 0:: mbarrier.try_wait.parity b, 0; ld.weak r0, x",
    ), "P1:r0;", 1),
    Row("tma.unwaited", "global g = 7; shared x; mbarrier b count 1;", (
        "cta 0:: mbarrier.arrive.expect_tx b, 4; cp.async.bulk x, g, b; ld.weak r0, x",
    ), "P0:r0;", 2),
    Row("tcgen05", "tmem t; shared a = 2; shared c = 3; mbarrier b count 1;", (
        "cta 0:: tcgen05.mma t, a, c, 0; tcgen05.commit b; mbarrier.try_wait.parity b, 0;"
        "tcgen05.fence::after_thread_sync; tcgen05.ld r0, t; tcgen05.wait::ld",
    ), "P0:r0;", 1),
    Row("tcgen05.unwaited", "tmem t; shared a = 2; shared c = 3;", (
        "cta 0:: tcgen05.mma t, a, c, 0; tcgen05.ld r0, t; tcgen05.wait::ld",
    ), "P0:r0;", 2),
)  # fmt: skip

LOOPS = ("spin", "spin.cas", "count")
BY_NAME = {row.name: row for row in ROWS}


def both(test: Litmus, isa: str = "9.4", **options: Any) -> tuple[Outcome, Outcome]:
    reading = reading_named("ptx", isa)
    one, other = (explore(test, reading, engine, **options) for engine in ("enumerate", "smt"))
    return one, other


def agree(one: Outcome, other: Outcome) -> None:
    assert one.states == other.states
    assert (one.holds, one.cut, one.hangs) == (other.holds, other.cut, other.hangs)
    assert one.races == other.races


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_states_are_the_same(row: Row) -> None:
    one, other = both(make(row))
    agree(one, other)
    assert len(one.states) == row.states


@pytest.mark.parametrize("isa", ISA_VERSIONS[:-1])
@pytest.mark.parametrize(
    "name", ["MP", "MP.atomics", "SB.sc", "CoRR.weak", "increments.cta", "bar"]
)
def test_every_version_gives_the_same(name: str, isa: str) -> None:
    agree(*both(make(BY_NAME[name]), isa))


@pytest.mark.parametrize("name", [*LOOPS, "bar.register", "mbarrier", "mbarrier.test", "tma"])
def test_the_same_runs_do_not_end(name: str) -> None:
    agree(*both(make(BY_NAME[name]), property="termination"))


@pytest.mark.parametrize("bound", [0, 1, 2, 7])
def test_the_bound_means_the_same(bound: int) -> None:
    agree(*both(make(BY_NAME["count"]), bound=bound))


@pytest.mark.parametrize("axiom", [axiom.name for axiom in AXIOMS.axioms])
@pytest.mark.parametrize("name", ["MP", "SB.sc", "increments", "2+2W", "LB.control"])
def test_an_axiom_less_gives_the_same(name: str, axiom: str) -> None:
    agree(*both(make(BY_NAME[name]), axioms=AXIOMS.without(axiom)))


def test_the_solver_stops_in_time() -> None:
    found = explore(make(BY_NAME["IRIW.sc"]), "ptx", "smt", deadline=0.0)
    assert (found.holds, found.cut) == (None, (str(TimeLimit("the time limit was reached")),))
