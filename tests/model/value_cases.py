"""Litmus tests for the rules and rows that only an execution with values shows: patterns on memory,
fence.sc, observation. `check` knows no values, so `test_rules.py` and `test_composition.py` count
the names of this module as covered, and `test_value_rules.py` runs the tests.

`litmus("x = 0;", "P0@cta 0: st.weak x, 1", ..., "x = 1")` writes the text of a test: the init
block, one line a thread, the condition after `exists`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from lastread.litmus.language.parser import parse
from lastread.model import instructions as ins
from lastread.model.axiomatic import candidates, patterns
from lastread.model.axiomatic.code import Test
from lastread.model.axiomatic.relations import Relation
from lastread.model.axiomatic.skeleton import Fence, Skeleton
from lastread.model.composition import (
    ALL_CTAS,
    ROWS,
    Context,
    Label,
    Row,
    State,
    Via,
    Which,
    passed,
)
from lastread.model.graph import AccessEvent
from lastread.model.instructions import Role, Scope, Sem
from lastread.model.readings import Reading, reading_named
from lastread.model.rules import TABLE, RuleTable
from lastread.model.run import Where

PTX, STRICT = reading_named("ptx"), reading_named("strict")
PTX_60 = reading_named("ptx", "6.0")


def litmus(init: str, *lines: str) -> Test:
    heads, codes = zip(*(line.split(": ", 1) for line in lines[:-1]), strict=True)
    cells = zip_longest(*(code.split("; ") for code in codes), fillvalue="")
    rows = [" | ".join(row) + " ;" for row in [heads, *cells]]
    return parse("\n".join(["PTX case", "{", init, "}", *rows, f"exists ({lines[-1]})"]), "case")


# --- tests that several names share: the outcome asked for is forbidden ---------------------------

READS_OLD = "P1:r1 = 1 /\\ P1:r2 = 0"
FLAG = "x = 0; y = 0;"
TMEM = "tmem t; global f; global g;"


def passing(writer: str, reader: str, condition: str = READS_OLD) -> Test:
    """Message passing between two CTAs: x is the data, y the flag."""
    return litmus(
        FLAG, f"P0@cta 0: st.weak x, 1; {writer}", f"P1@cta 1: {reader}; ld.weak r2, x", condition
    )


def loaded_then_added(writer: str, reader: str) -> Test:
    """One warp loads from tensor memory and sets a flag; another that saw it adds 1."""
    return litmus(
        TMEM,
        f"P0@warp 0: tcgen05.ld r, t; tcgen05.wait::ld; {writer}",
        f"P1@warp 1: {reader}; tcgen05.fence::after_thread_sync; tcgen05.mma t",
        "P1:q = 1 /\\ P0:r = 1",
    )


REL, RLX_WRITE = "st.release.gpu y, 1", "st.relaxed.gpu y, 1"
ACQ, RLX_READ = "ld.acquire.gpu r1, y", "ld.relaxed.gpu r1, y"
FENCE = "fence.acq_rel.gpu"
MP = passing(REL, ACQ)
FENCED_MP = passing(f"{FENCE}; {RLX_WRITE}", ACQ)
CORR = litmus(
    "x = 0;",
    "P0@cta 0: st.relaxed.gpu x, 1",
    "P1@cta 1: ld.relaxed.gpu r1, x; ld.weak r2, x",
    READS_OLD,
)
SEED_BY_FLAG = loaded_then_added("st.release.cta f, 1", "ld.acquire.cta q, f")


def buffering(fence: str) -> Test:
    """Store buffering with this fence in both threads."""
    return litmus(
        FLAG,
        f"P0@cta 0: st.relaxed.gpu x, 1; {fence}; ld.relaxed.gpu r1, y",
        f"P1@cta 1: st.relaxed.gpu y, 1; {fence}; ld.relaxed.gpu r2, x",
        "P0:r1 = 0 /\\ P1:r2 = 0",
    )


def relayed(middle: str) -> Test:
    """The reader acquires what another thread made of the released flag."""
    return litmus(
        FLAG,
        "P0@cta 0: st.weak x, 1; st.release.gpu y, 1",
        f"P1@cta 1: {middle}",
        "P2@cta 2: ld.acquire.gpu r1, y; ld.weak r2, x",
        "P2:r1 = 2 /\\ P2:r2 = 0",
    )


def aliased(fence: str) -> Test:
    """The reader's `z` is another virtual address of x."""
    return litmus(
        f"{FLAG} z @ generic aliases x;",
        f"P0@cta 0: st.weak x, 1; {REL}",
        f"P1@cta 1: {ACQ}; {fence}; ld.weak r2, z",
        READS_OLD,
    )


# --- without the rule (row) the outcome becomes possible ------------------------------------------


@dataclass(frozen=True)
class Case:
    test: Test
    reading: Reading = PTX


REMOVED_RULES: dict[str, Case] = {
    "release-write": Case(MP),
    "release-write-then-write": Case(
        passing(f"{REL}; st.relaxed.gpu y, 2", ACQ, "P1:r1 = 2 /\\ P1:r2 = 0")
    ),
    "release-fence": Case(FENCED_MP),
    "acquire-read": Case(MP),
    "acquire-read-then-read": Case(  # what the acquire reads is not what was released
        litmus(
            FLAG,
            f"P0@cta 0: st.weak x, 1; {REL}",
            f"P1@cta 1: {RLX_READ}; ld.acquire.gpu r3, y; ld.weak r2, x",
            "P2@cta 2: st.relaxed.gpu y, 2",
            "P1:r1 = 1 /\\ P1:r3 = 2 /\\ P1:r2 = 0",
        )
    ),
    "acquire-fence": Case(passing(REL, f"{RLX_READ}; {FENCE}")),
    "synchronizes": Case(MP),
    "fence-sc-order": Case(buffering("fence.sc.gpu")),
    "alias-fence": Case(aliased("fence.proxy.alias")),
    "po-is-causality": Case(CORR),
    "observation": Case(MP),
    "observation-through-atomics": Case(relayed("atom.relaxed.gpu.add r0, y, 1")),
}

REMOVED_ROWS: dict[str, Case] = {
    "sync-held": Case(MP),
    "sync-held-tmem": Case(SEED_BY_FLAG),
    "sync-armed": Case(FENCED_MP),
    "observe-armed": Case(
        loaded_then_added(
            "tcgen05.fence::before_thread_sync; st.relaxed.cta f, 1", "ld.relaxed.cta q, f"
        )
    ),
}

VALUE_RULES, VALUE_ROWS = frozenset(REMOVED_RULES), frozenset(REMOVED_ROWS)


# --- loosened: a possible outcome is lost ---------------------------------------------------------


@dataclass(frozen=True)
class Loosened:
    """The tables, or what takes the place of `Class.name` or `module.name`: what a pattern is, and
    which scopes and locations fit, are functions of the model and not data of the table."""

    test: Test
    reading: Reading = PTX
    table: RuleTable = TABLE
    rows: tuple[Row, ...] = ROWS
    patch: tuple[object, str, object] | None = None


def by_code(test: Test, owner: object, name: str, value: object) -> Loosened:
    return Loosened(test, patch=(owner, name, value))


def row(name: str, **changes: Any) -> tuple[Row, ...]:
    assert name in {each.name for each in ROWS}
    return tuple(replace(r, **changes) if r.name == name else r for r in ROWS)


def always(_: object) -> bool:
    return True


def every_access(_: Skeleton, __: Where) -> Sem:
    """Each strong access releases and acquires."""
    return Sem.ACQ_REL


def any_place(
    skeleton: Skeleton, where: Where, _: AccessEvent, not_role: Role
) -> Iterator[AccessEvent]:
    """A pattern of two accesses may join two locations."""
    for event in patterns._strong(skeleton):
        if event.where == where and event.access.role is not not_role:
            yield event


def any_scope(_: Skeleton, release: patterns.Pattern, acquire: patterns.Pattern) -> bool:
    one, other = release.access, acquire.access
    return one.where.agent != other.where.agent and one.access.region == other.access.region


def any_fence(skeleton: Skeleton) -> list[Fence]:
    """fence.sc order of all fences."""
    return [
        Fence(Where(a, s), skeleton.graph.issue_of[Where(a, s)], Scope.GPU, agent.cta)
        for a, agent in enumerate(skeleton.run.program.agents)
        for s, step in enumerate(agent.steps)
        if isinstance(step.instruction, ins.Fence)
    ]


def any_reader(_: object, rf: Relation) -> Relation:
    """Reading is observing, whatever the scopes."""
    return rf


def any_overwriting(setting: candidates.Setting, rf: Relation) -> Relation:
    """Observation goes on through every write that is morally strong with the first."""
    strong = setting.skeleton.strong
    return (rf & strong) | (strong @ (rf & strong))


SYNCHRONIZING = property(lambda sem: sem not in (Sem.WEAK, Sem.RELAXED))
"""Acquire fences release, and release fences acquire."""


def aliasing(state: State, label: Label, context: Context) -> State:
    return state._replace(fenced=passed(state.fenced, (None, ALL_CTAS)))


def held(state: State, label: Label, context: Context) -> State:
    """Performed everywhere, and complete."""
    return State(visible=Scope.SYS, fenced=state.fenced, via=Via.ACQUIRED)


LOOSENED_RULES: dict[str, Loosened] = {
    "release-write": Loosened(
        passing(RLX_WRITE, ACQ),
        table=TABLE.replacing(replace(TABLE["release"], when=always)),
        patch=(patterns, "_sem", every_access),
    ),
    "release-write-then-write": by_code(
        passing(
            "st.release.gpu z, 1; st.relaxed.gpu y, 1", f"{RLX_READ}; {FENCE}"
        ),
        patterns, "_same_place", any_place,
    ),
    "release-fence": by_code(
        passing(f"fence.acquire.gpu; {RLX_WRITE}", ACQ), Sem, "releases", SYNCHRONIZING
    ),
    "acquire-read": by_code(passing(REL, RLX_READ), patterns, "_sem", every_access),
    "acquire-read-then-read": by_code(
        passing(f"{FENCE}; {RLX_WRITE}", f"{RLX_READ}; ld.acquire.gpu r3, z"),
        patterns, "_same_place", any_place,
    ),
    "acquire-fence": by_code(
        passing(REL, f"{RLX_READ}; fence.release.gpu"), Sem, "acquires", SYNCHRONIZING
    ),
    "synchronizes": by_code(
        passing(f"{FENCE}; {RLX_WRITE}", f"{RLX_READ}; fence.acq_rel.cta"),
        patterns, "_pair", any_scope,
    ),
    "fence-sc-order": by_code(buffering(FENCE), Skeleton, "fences", property(any_fence)),
    "alias-fence": Loosened(
        aliased("fence.proxy.async"), rows=row("proxy-fence", then=aliasing)
    ),
    "po-is-causality": Loosened(
        CORR, PTX_60, TABLE.replacing(replace(TABLE["po-is-causality"], since="6.0"))
    ),
    "observation": by_code(
        litmus(
            "x = 0;",
            "P0@cta 0: st.relaxed.cta x, 1",
            "P1@cta 1: ld.relaxed.cta r1, x; ld.weak r2, x",
            READS_OLD,
        ),
        candidates, "observation", any_reader,
    ),
    "observation-through-atomics": by_code(
        relayed("st.relaxed.gpu y, 2"), candidates, "observation", any_overwriting
    ),
}  # fmt: skip

LOOSENED_ROWS: dict[str, Loosened] = {
    "sync-held": Loosened(SEED_BY_FLAG, STRICT, rows=row("sync-held", which=Which.ALL)),
    "sync-held-tmem": Loosened(SEED_BY_FLAG, STRICT, rows=row("sync-held-tmem", then=held)),
    "sync-armed": Loosened(  # work in the pipe of the warp, not complete
        litmus(
            TMEM,
            "P0@warp 0: tcgen05.mma t; tcgen05.fence::before_thread_sync; st.release.cta f, 1",
            "P1@warp 0: ld.acquire.cta q, f; tcgen05.fence::after_thread_sync; tcgen05.ld r, t",
            "P1:q = 1 /\\ P1:r = 0",
        ),
        rows=row("sync-armed", then=held),
    ),
    "observe-armed": Loosened(  # seen, but not behind a fence
        litmus(
            TMEM,
            "P0@warp 0: tcgen05.ld r, t; tcgen05.wait::ld; tcgen05.fence::before_thread_sync; "
            "st.relaxed.cta f, 1",
            "P1@warp 1: ld.relaxed.cta q, f; st.release.cta g, 1",
            "P2@warp 2: ld.acquire.cta q, g; tcgen05.fence::after_thread_sync; tcgen05.mma t",
            "P1:q = 1 /\\ P2:q = 1 /\\ P0:r = 1",
        ),
        rows=row("observe-armed", then=held),
    ),
}


# --- axioms ---------------------------------------------------------------------------------------

AXIOM_CASES: dict[str, Case] = {
    "no-thin-air": Case(  # the constants of a test are the values that may come out of thin air
        litmus(
            "x = 0; y = 0; z = 0;",
            "P0@cta 0: ld.relaxed.gpu r1, x; st.relaxed.gpu y, r1; st.relaxed.gpu z, 1",
            "P1@cta 1: ld.relaxed.gpu r2, y; st.relaxed.gpu x, r2",
            "P0:r1 = 1 /\\ P1:r2 = 1",
        )
    ),
    "coherence": Case(  # each write is observed, and then the other is made: once by program order
        litmus(
            "x = 0; z = 0;",
            "P0@cta 0: ld.relaxed.gpu r0, x; st.relaxed.cta x, 1",
            "P1@cta 0: ld.relaxed.gpu r1, x; st.release.gpu z, 1",
            "P2@cta 1: ld.acquire.gpu r2, z; st.relaxed.gpu x, 2",
            "P0:r0 = 2 /\\ P1:r1 = 1 /\\ P2:r2 = 1",
        )
    ),
    "atomicity": Case(
        litmus(
            "x = 0;",
            "P0@cta 0: atom.relaxed.gpu.add r1, x, 1",
            "P1@cta 1: atom.relaxed.gpu.add r2, x, 1",
            "x = 1",
        )
    ),
    "sc-per-location": Case(  # from 7.5 on program order is causality, which forbids it too
        litmus(
            "x = 0;",
            "P0@cta 0: st.relaxed.gpu x, 1",
            "P1@cta 1: ld.relaxed.gpu r1, x; ld.relaxed.gpu r2, x",
            READS_OLD,
        ),
        PTX_60,
    ),
    "causality": Case(MP),
}

FENCES_IN_ORDER = litmus(
    "x = 0;",
    "P0@warp 0: fence.sc.cta; bar.sync 0",
    "P1@warp 1: bar.sync 0; fence.sc.cta",
    "x = 0",
)
"""One order of the fences agrees with the barrier."""
