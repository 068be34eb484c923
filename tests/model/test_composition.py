"""Every row of the composition table matters: without it order is lost, loosened it is invented.

A new row without entries in both tables fails `test_every_row_is_tested`. Rows about values have
theirs in `value_cases.py`, as `check` knows no values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from lastread.model import check
from lastread.model import instructions as ins
from lastread.model.composition import (
    ROWS,
    Context,
    Label,
    Mode,
    Origin,
    State,
    Via,
    Which,
)
from lastread.model.program import Program
from lastread.model.readings import Reading, reading_named
from programs import (
    ACQUIRE,
    AFTER,
    ASYNC_FENCES,
    B2,
    B3,
    BEFORE,
    CLUSTER,
    RELAXED,
    RELEASE,
    WAIT_LD,
    B,
    D,
    G,
    T,
    X,
    Y,
    agent,
    arrive,
    bar,
    cluster_arrive,
    cluster_wait,
    commit,
    ctas,
    fence,
    ld,
    mbar,
    mma,
    program,
    proxy_fence,
    relaxed,
    st,
    t_cp,
    t_ld,
    threads,
    tma_load,
    tma_store,
    wait,
    wide,
)  # fmt: skip
from value_cases import VALUE_ROWS

PTX, STRICT = reading_named("ptx"), reading_named("strict")
PTX_93 = reading_named("ptx", "9.3")
CARRIED = "completed-work-rides-happens-before"
ONLY_FENCES = PTX.assume(f"no-{CARRIED}")
EXPECT = relaxed(arrive(B, expect=1024))
NEAR, FAR = mbar("n"), mbar("f", cta=1)
RELEASE_FENCE, ACQUIRE_FENCE = fence(RELEASE), fence(ACQUIRE)


@dataclass(frozen=True)
class Case:
    program: Program
    reading: Reading = PTX


def cluster(*strands: list[ins.Instruction], at: tuple[int, ...]) -> Program:
    """One thread a strand, each in a warp of its own, in the CTAs `at`."""
    return program(
        *(agent(f"T{n}", s, at[n], n) for n, s in enumerate(strands))
    )  # fmt: skip


def both(
    one: list[ins.Instruction],
    other: list[ins.Instruction],
    arrive_sem: ins.Sem = ins.Sem.RELEASE,
    wait_sem: ins.Sem = ins.Sem.ACQUIRE,
) -> Program:
    """A cluster barrier between what one CTA did and what another does."""
    return ctas(
        T0=[*one, cluster_arrive(arrive_sem), cluster_wait()],
        T1=[cluster_arrive(), cluster_wait(wait_sem), *other],
    )


# `AFTER` and `BEFORE` between two steps do nothing to shared memory: they make program order a
# step of its own, since the engine shares what is known along plain program order.

# --- the row is needed ----------------------------------------------------------------------------

FENCED_ARRIVE = threads(T0=[st(X), RELEASE_FENCE, relaxed(arrive(B))], T1=[wait(B), ld(X)])
FENCED_WAIT = threads(T0=[st(X), arrive(B)], T1=[relaxed(wait(B)), ACQUIRE_FENCE, ld(X)])
PASSING = threads(T0=[st(X), arrive(B)], T1=[wait(B), ld(X)])
BAR = threads(T0=[st(X), bar(2)], T1=[bar(2), ld(X)])
HALVES = threads(
    T0=[t_ld(T), WAIT_LD, BEFORE, relaxed(arrive(B))], T1=[relaxed(wait(B)), AFTER, mma(T)]
)
RIDING = threads(T0=[ld(Y), arrive(B2)], T1=[wait(B2), mma(D), commit(B)], T2=[wait(B), st(Y)])

NEEDED: dict[str, Case] = {
    "po-held": Case(threads(T0=[st(X), arrive(B)], T1=[wait(B), AFTER, ld(X)])),
    "po-armed": Case(
        threads(T0=[st(X), RELEASE_FENCE, AFTER, relaxed(arrive(B))], T1=[wait(B), ld(X)])
    ),
    "po-seen": Case(FENCED_WAIT),
    "begin-held": Case(PASSING),
    "begin-armed": Case(threads(T0=[st(X), arrive(B)], T1=[wait(B), RELEASE_FENCE, ld(X)])),
    "ride-held": Case(RIDING),
    "ride-armed": Case(
        threads(
            T0=[ld(Y), arrive(B2)],
            T1=[wait(B2), RELEASE_FENCE, wait(B3), mma(D), commit(B)],
            T2=[wait(B), st(Y)],
            T3=[arrive(B3)],
        )
    ),
    "arrive-held": Case(PASSING),
    "arrive-held-tmem": Case(
        threads(T0=[t_ld(T), WAIT_LD, arrive(B)], T1=[wait(B), mma(T)])
    ),
    "arrive-armed": Case(FENCED_ARRIVE),
    "signal": Case(threads(T0=[EXPECT, tma_load(X, B)], T1=[wait(B), ld(X)])),
    "wait": Case(PASSING),
    "bar-in": Case(BAR),
    "bar-in-tmem": Case(threads(T0=[t_ld(T), WAIT_LD, bar(2)], T1=[bar(2), mma(T)])),
    "bar-in-armed": Case(threads(T0=[st(X), RELEASE_FENCE, bar(2)], T1=[bar(2), ld(X)])),
    "bar-out": Case(BAR),
    "cluster-in": Case(both([st(G)], [ld(G)])),
    "cluster-in-tmem": Case(both([t_ld(T), WAIT_LD], [mma(T)])),
    "cluster-in-armed": Case(both([st(G), fence(RELEASE, CLUSTER)], [ld(G)], RELAXED)),
    "cluster-out": Case(both([st(G)], [ld(G)])),
    "fence-arms": Case(FENCED_ARRIVE),
    "fence-arms-tmem": Case(
        threads(
            T0=[t_ld(T), WAIT_LD, RELEASE_FENCE, relaxed(arrive(B))], T1=[wait(B), AFTER, mma(T)]
        )
    ),
    "fence-rearms": Case(
        ctas(
            T0=[st(G), RELEASE_FENCE, fence(RELEASE, CLUSTER), relaxed(arrive(FAR), CLUSTER)],
            T1=[wide(wait(FAR)), ld(G)],
        )
    ),
    "fence-acquires": Case(FENCED_WAIT),
    "before-arms": Case(HALVES),
    "after-acquires": Case(HALVES),
    "proxy-fence": Case(
        threads(T0=[st(X), arrive(B)], T1=[wait(B), proxy_fence(), tma_store(X)])
    ),
    "proxy-fence-armed": Case(
        threads(T0=[st(X), arrive(B)], T1=[wait(B), RELEASE_FENCE, proxy_fence(), tma_store(X)])
    ),
}  # fmt: skip


# --- the row does not carry more ------------------------------------------------------------------


@dataclass(frozen=True)
class Loosened:
    """`changes` to the row, with which the race of `program` is missed."""

    program: Program
    changes: dict[str, object]
    reading: Reading = PTX


def then(step: object) -> dict[str, object]:
    return {"then": step}


def held(state: State, label: Label, context: Context) -> State:
    """Performed for this thread, whatever was said before."""
    return State(visible=state.visible, fenced=state.fenced, piped=state.piped)


def wide_held(state: State, label: Label, context: Context) -> State:
    return held(state, label, context)._replace(visible=ins.Scope.SYS, via=Via.ACQUIRED)


def armed(state: State, label: Label, context: Context) -> State:
    return held(state, label, context)._replace(mode=Mode.ARMED, scope=ins.Scope.SYS)


def flies(state: State, label: Label, context: Context) -> State:
    return held(state, label, context)._replace(mode=Mode.FLIGHT, scope=ins.Scope.SYS)


def flies_wide(state: State, label: Label, context: Context) -> State:
    return flies(state, label, context)._replace(visible=ins.Scope.SYS)


def fenced(state: State, label: Label, context: Context) -> State:
    return state._replace(fenced=ASYNC_FENCES)


def owned(state: State, label: Label, context: Context) -> State:
    return state._replace(mode=Mode.FLIGHT, origin=Origin.OWN)


RELAXED_WAIT = threads(T0=[st(X), arrive(B)], T1=[relaxed(wait(B)), ld(X)])
NARROW_ARRIVE = ctas(
    T0=[st(G), RELEASE_FENCE, relaxed(arrive(FAR), CLUSTER)], T1=[wide(wait(FAR)), ld(G)]
)
BAR_THEN_COMMIT = cluster(  # a barrier of CTA 0 performs the store for CTA 0 only
    [st(G), bar(2)],
    [bar(2), mma(D), commit(FAR)],
    [wide(wait(FAR)), ld(G)],
    at=(0, 0, 1),
)
UNFENCED_STORE = threads(T0=[st(X), arrive(B)], T1=[wait(B), tma_store(X)])
PIPED = threads(  # work of another thread in the pipe, not complete
    T0=[t_cp(T), BEFORE, relaxed(arrive(B2))],
    T1=[relaxed(wait(B2)), AFTER, mma(D), commit(B)],
    T2=[wait(B), mma(D, T)],
)
RELAXED_BOTH = threads(
    T0=[st(X), arrive(B2), relaxed(arrive(B))], T1=[relaxed(wait(B)), ACQUIRE_FENCE, ld(X)]
)

LOOSENED: dict[str, Loosened] = {
    "po-held": Loosened(
        threads(T0=[st(X), arrive(B2), AFTER, relaxed(arrive(B))], T1=[wait(B), ld(X)]),
        then(armed),
    ),
    "po-armed": Loosened(
        ctas(
            T0=[st(G), RELEASE_FENCE, AFTER, relaxed(arrive(FAR), CLUSTER)],
            T1=[wide(wait(FAR)), ld(G)],
        ),
        then(armed),
    ),
    "po-seen": Loosened(
        threads(T0=[st(X), arrive(B)], T1=[relaxed(wait(B)), BEFORE, ld(X)]), then(held)
    ),
    "begin-held": Loosened(UNFENCED_STORE, then(fenced)),
    "begin-armed": Loosened(
        threads(T0=[st(X), arrive(B)], T1=[wait(B), RELEASE_FENCE, tma_store(X)]), then(fenced)
    ),
    "ride-held": Loosened(PIPED, then(held), PTX_93),
    "ride-armed": Loosened(
        threads(
            T0=[t_cp(T), BEFORE, relaxed(arrive(B2))],
            T1=[relaxed(wait(B2)), AFTER, BEFORE, AFTER, mma(D), commit(B)],
            T2=[wait(B), mma(D, T)],
        ),
        then(held),
        PTX_93,
    ),
    "arrive-held": Loosened(
        threads(T0=[st(X), arrive(B2), relaxed(arrive(B))], T1=[wait(B), ld(X)]), then(flies)
    ),
    "arrive-held-tmem": Loosened(
        threads(T0=[t_ld(T), WAIT_LD, relaxed(arrive(B))], T1=[wait(B), mma(T)]), then(flies)
    ),
    "arrive-armed": Loosened(NARROW_ARRIVE, then(flies_wide)),
    "signal": Loosened(
        threads(T0=[mma(D, X), commit(B)], T1=[wait(B), st(X)]),
        then(lambda s, label, c: fenced(s, label, c)._replace(mode=Mode.FLIGHT,
                                                             scope=ins.Scope.SYS)),
        STRICT,
    ),
    "wait": Loosened(RELAXED_WAIT, then(held)),
    "bar-in": Loosened(BAR_THEN_COMMIT, then(flies_wide)),
    "bar-in-tmem": Loosened(
        threads(T0=[t_ld(T), WAIT_LD, bar(2)], T1=[bar(2), AFTER, mma(T)]), then(flies), ONLY_FENCES
    ),
    "bar-in-armed": Loosened(
        cluster(
            [st(G), RELEASE_FENCE, bar(2)],
            [bar(2), mma(D), commit(FAR)],
            [wide(wait(FAR)), ld(G)],
            at=(0, 0, 1),
        ),
        then(flies_wide),
    ),
    "bar-out": Loosened(BAR_THEN_COMMIT, then(wide_held)),
    "cluster-in": Loosened(
        both([st(G), arrive(NEAR)], [ld(G)], RELAXED), then(flies_wide)
    ),
    "cluster-in-tmem": Loosened(both([t_ld(T), WAIT_LD], [mma(T)], RELAXED), then(flies)),
    "cluster-in-armed": Loosened(both([st(G), RELEASE_FENCE], [ld(G)], RELAXED), then(flies_wide)),
    "cluster-out": Loosened(both([st(G)], [ld(G)], wait_sem=RELAXED), then(held)),
    "fence-arms": Loosened(NARROW_ARRIVE, then(armed)),
    "fence-arms-tmem": Loosened(
        threads(
            T0=[t_ld(T), WAIT_LD, RELEASE_FENCE, relaxed(arrive(B))], T1=[wait(B), AFTER, mma(T)]
        ),
        then(armed),
        ONLY_FENCES,
    ),
    "fence-rearms": Loosened(
        ctas(
            T0=[st(G), RELEASE_FENCE, RELEASE_FENCE, relaxed(arrive(FAR), CLUSTER)],
            T1=[wide(wait(FAR)), ld(G)],
        ),
        then(armed),
    ),
    "fence-acquires": Loosened(
        ctas(
            T0=[st(G), wide(arrive(FAR))],
            T1=[relaxed(wait(FAR), CLUSTER), ACQUIRE_FENCE, ld(G)],
        ),
        then(held),
    ),
    "before-arms": Loosened(
        threads(T0=[st(X), arrive(B2), BEFORE, relaxed(arrive(B))], T1=[wait(B), ld(X)]),
        {"which": Which.ALL},
    ),
    "after-acquires": Loosened(
        threads(T0=[st(X), arrive(B)], T1=[relaxed(wait(B)), AFTER, ld(X)]), {"which": Which.ALL}
    ),
    "proxy-fence": Loosened(
        cluster(
            [st(X), arrive(NEAR)],
            [wait(NEAR), proxy_fence(), wide(arrive(FAR))],
            [wide(wait(FAR)), tma_store(X)],
            at=(0, 0, 1),
        ),
        then(fenced),
        STRICT,
    ),
    "proxy-fence-armed": Loosened(
        cluster(
            [st(X), arrive(NEAR)],
            [wait(NEAR), RELEASE_FENCE, proxy_fence(), wide(arrive(FAR))],
            [wide(wait(FAR)), tma_store(X)],
            at=(0, 0, 1),
        ),
        then(fenced),
        STRICT,
    ),
}  # fmt: skip


def test_every_row_is_tested() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert not VALUE_ROWS & {*NEEDED, *LOOSENED}
    assert set(NEEDED) | VALUE_ROWS == set(names)
    assert set(LOOSENED) | VALUE_ROWS == set(names)


@pytest.mark.parametrize("name", NEEDED)
def test_without_the_row_order_is_lost(name: str) -> None:
    case = NEEDED[name]
    assert check(case.program, case.reading).verdict == "ordered"
    fewer = tuple(row for row in ROWS if row.name != name)
    assert check(case.program, case.reading, rows=fewer).verdict == "race"


@pytest.mark.parametrize("name", LOOSENED)
def test_with_the_row_loosened_a_race_is_missed(name: str) -> None:
    case = LOOSENED[name]
    assert check(case.program, case.reading).verdict == "race"
    looser = tuple(
        replace(row, **case.changes) if row.name == name else row  # type: ignore[arg-type]
        for row in ROWS
    )
    assert check(case.program, case.reading, rows=looser).verdict == "ordered"
