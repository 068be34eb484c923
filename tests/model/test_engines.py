"""The engines agree on random small programs: causality, z3, and a brute-force search.

A program is a ring between a producer and one or two consumers, then mutated: steps dropped or
swapped, parities flipped, semantics relaxed. Most of them are wrong in some way, which is the
point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lastread.model import instructions as ins
from lastread.model.build import build_graph
from lastread.model.causality import Causality
from lastread.model.conflicts import Conflicts, find_regions
from lastread.model.graph import members
from lastread.model.interleavings import landings, matchings
from lastread.model.matching import unstable
from lastread.model.program import (
    Agent,
    Barrier,
    BudgetExceeded,
    Program,
    Region,
    Source,
    Space,
    Step,
)
from lastread.model.readings import READINGS
from lastread.model.reversal import Core, pair
from lastread.model.run import run_once
from lastread.model.smt import Effort

LIMIT = 200
Steps = list[ins.Instruction]

# --- random programs -------------------------------------------------------------------------


def shared(slot: int) -> Region:
    return Region(Space.SHARED, 0, (64 * slot, 64 * slot + 64), array="A", index=slot)


def tensor(slot: int) -> Region:
    columns = (32 * slot, 32 * slot + 32)
    return Region(Space.TMEM, 0, columns, (0, 128), array="T", index=slot)


def bulk(slot: int, full: Barrier) -> Steps:
    arrive = ins.MbarrierArrive(full, expect=64)
    return [arrive, ins.BulkCopy((shared(slot),), targets=(ins.Signal(full, bytes=64),))]


def store(slot: int, full: Barrier) -> Steps:
    return [ins.Store(shared(slot)), ins.FenceProxyAsync(), ins.MbarrierArrive(full)]


def tensor_store(slot: int, full: Barrier) -> Steps:
    before, wait = ins.Tcgen05Fence(), ins.Tcgen05Wait(stores=True)
    return [ins.Tcgen05St(tensor(slot)), wait, before, ins.MbarrierArrive(full)]


def load(slot: int, empty: Barrier) -> Steps:
    return [ins.Load(shared(slot), "r"), ins.Use(("r",)), ins.MbarrierArrive(empty)]


def tensor_load(slot: int, empty: Barrier) -> Steps:
    loaded = ins.Tcgen05Ld(tensor(slot), "r")
    return [ins.Tcgen05Fence(True), loaded, ins.Tcgen05Wait(), ins.MbarrierArrive(empty)]


def multiply(slot: int, empty: Barrier) -> Steps:
    mma = ins.Tcgen05Mma((tensor(4),), b=(shared(slot),))
    return [ins.Tcgen05Fence(True), mma, ins.Tcgen05Commit((empty,))]


Half = Callable[[int, Barrier], Steps]
PAIRS: list[tuple[Half, Half]] = [
    (bulk, load), (bulk, multiply), (store, load), (store, multiply), (tensor_store, tensor_load),
]  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """A change of the step at a place (modulo the steps there are)."""

    kind: str
    agent: int
    place: int

    def apply(self, strands: list[Steps]) -> None:
        steps = strands[self.agent % len(strands)]
        if not steps:
            return
        place = self.place % len(steps)
        step = steps[place]
        if self.kind == "drop":
            del steps[place]
        elif self.kind == "swap":
            steps.insert(max(place - 1, 0), steps.pop(place))
        elif isinstance(step, ins.MbarrierTryWait):
            changes = {"flip": {"parity": 1 - step.parity}, "relax": {"sem": ins.Sem.RELAXED}}
            steps[place] = replace(step, **changes[self.kind])  # type: ignore[arg-type]
        elif isinstance(step, ins.MbarrierArrive):
            steps[place] = replace(step, sem=ins.Sem.RELAXED)


mutations = st.builds(
    Mutation,
    st.sampled_from(("drop", "swap", "flip", "relax")),
    st.integers(0, 2),
    st.integers(0, 20),
)


@st.composite
def programs(draw: st.DrawFn, most: int = 3) -> Program:
    produce, consume = draw(st.sampled_from(PAIRS))
    depth, tiles = draw(st.integers(1, 2)), draw(st.integers(1, most))
    consumers, count = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    full = [Barrier("full", slot, 0, 1) for slot in range(depth)]
    empty = [Barrier("empty", slot, 0, count) for slot in range(depth)]
    producer: Steps = []
    consumer: Steps = []
    for tile in range(tiles):
        slot, use = tile % depth, tile // depth & 1
        producer += [ins.MbarrierTryWait(empty[slot], parity=use ^ 1), *produce(slot, full[slot])]
        consumer += [ins.MbarrierTryWait(full[slot], parity=use), *consume(slot, empty[slot])]
    strands = [producer, *(list(consumer) for _ in range(consumers))]
    if draw(st.booleans()):
        threads = draw(st.integers(1, len(strands)))
        for strand in strands:
            strand.insert(draw(st.integers(0, len(strand))), ins.Bar(1, threads))
    for mutation in draw(st.lists(mutations, max_size=2)):
        mutation.apply(strands)
    one_warp = draw(st.booleans())
    agents = []
    for number, steps in enumerate(strands):
        made = [Step(step, Source(line), position=line) for line, step in enumerate(steps)]
        warp = 0 if one_warp else number
        agents.append(Agent(f"agent{number}", 0, warp, 1, made, 32 * warp + number))
    arrays = {"A": [shared(n) for n in range(depth)], "T": [tensor(n) for n in (0, 1, 4)]}
    return Program("random", {}, agents, arrays, full + empty)


# --- brute force -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """A state of the barrier machine with what has matched so far; written apart from `run.py`."""

    steps: tuple[int, ...]
    inside: frozenset[int]
    barriers: tuple[tuple[Barrier, tuple[int, int, int]], ...]
    bars: tuple[tuple[int, int], ...]
    flying: frozenset[tuple[int, int]]
    matched: frozenset[tuple[object, ...]]


def brute_force(program: Program) -> set[frozenset[tuple[object, ...]]]:
    """Every matching, by trying every order of every step and completion."""
    barriers = tuple((b, (0, b.count or 1, 0)) for b in program.barriers)
    start = Machine((0,) * len(program.agents), frozenset(), barriers, (), frozenset(), frozenset())
    seen, stack, ends = {start}, [start], set()
    while stack:
        here = stack.pop()
        after = list(_moves(program, here))
        if not after:
            stuck = {
                ("stuck", number, at)
                for number, at in enumerate(here.steps)
                if at < len(program.agents[number].steps)
            }
            ends.add(here.matched | stuck)
        for state in after:
            if state not in seen:
                seen.add(state)
                stack.append(state)
    return ends


def _moves(program: Program, here: Machine) -> list[Machine]:
    found = []
    for number, agent in enumerate(program.agents):
        at = here.steps[number]
        if at < len(agent.steps):
            after = _step(program, here, number, agent.steps[at].instruction)
            if after is not None:
                found.append(after)
                if isinstance(agent.steps[at].instruction, (ins.Load, ins.Store, ins.Use)):
                    return found[-1:]  # commutes with everything
    for number, at in sorted(here.flying):
        signal = program.agents[number].steps[at].instruction.signals[0]
        landed = replace(here, flying=here.flying - {(number, at)})
        found.append(_land(landed, (number, at), signal.barrier, signal.count, -signal.bytes))
    return found


def _step(
    program: Program, here: Machine, number: int, instruction: ins.Instruction
) -> Machine | None:
    at = here.steps[number]
    steps = tuple(n + (i == number) for i, n in enumerate(here.steps))
    after = replace(here, steps=steps)
    if isinstance(instruction, ins.MbarrierTryWait):
        completed = dict(here.barriers)[instruction.barrier][0]
        if completed % 2 == instruction.parity:
            return None
        return replace(after, matched=here.matched | {("wait", number, at, completed)})
    if isinstance(instruction, ins.MbarrierArrive):
        tx = instruction.expect - instruction.complete
        return _land(after, (number, at), instruction.barrier, instruction.count, tx)
    if isinstance(instruction, ins.Bar):
        return _bar(here, after, number, instruction.threads)
    if instruction.signals:
        return replace(after, flying=here.flying | {(number, at)})
    return after


def _land(
    here: Machine, arrival: tuple[int, int], barrier: Barrier, count: int, tx: int
) -> Machine:
    states = dict(here.barriers)
    completed, pending, bytes_left = states[barrier]
    pending, bytes_left = max(pending - count, 0), bytes_left + tx
    states[barrier] = (completed, pending, bytes_left)
    if pending == bytes_left == 0:
        states[barrier] = (completed + 1, barrier.count or 1, 0)
    label = ("land", *arrival, barrier, completed)
    return replace(here, barriers=tuple(states.items()), matched=here.matched | {label})


def _bar(here: Machine, after: Machine, number: int, threads: int) -> Machine | None:
    """`bars` are the members of each generation, in order of entry: (generation, agent)."""
    generations = [generation for generation, _ in here.bars]
    if number in here.inside:
        mine = next(generation for generation, agent in here.bars if agent == number)
        if generations.count(mine) < threads:
            return None
        return replace(after, inside=here.inside - {number})
    last = max(generations, default=0)
    mine = last if generations.count(last) < threads else last + 1
    label = ("bar", number, mine)
    return replace(
        here, inside=here.inside | {number}, bars=(*here.bars, (mine, number)),
        matched=here.matched | {label},
    )  # fmt: skip


def by_z3(program: Program) -> set[frozenset[tuple[object, ...]]] | None:
    """The same, from the engine; None when there are too many."""
    found = set()
    try:
        for run in matchings(program, Effort(10**11), LIMIT):
            labels: set[tuple[object, ...]] = {
                ("wait", where.agent, where.step, count) for where, count in run.observed.items()
            }
            labels |= {("stuck", where.agent, where.step) for where in run.stuck}
            for barrier, phases in run.phases.items():
                for phase, arrivals in enumerate(phases):
                    for where, _ in arrivals:
                        labels.add(("land", where.agent, where.step, barrier, phase))
            for where, (_, generation) in run.generation_of.items():
                labels.add(("bar", where.agent, generation))
            assert frozenset(labels) not in found, "a matching came twice"
            found.add(frozenset(labels))
    except BudgetExceeded as stop:
        assert "more than" in str(stop)
        return None
    return found


# --- they agree ------------------------------------------------------------------------------

few = settings(
    derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)


@settings(few, max_examples=60)
@given(programs(most=2))
def test_z3_finds_the_matchings_of_brute_force(program: Program) -> None:
    found = by_z3(program)
    if found is not None:
        assert found == brute_force(program)


@settings(few, max_examples=60)
@given(programs(), st.sampled_from(("strict", "ptx")))
def test_a_stable_matching_is_the_only_one(program: Program, name: str) -> None:
    run = run_once(program)
    if run.stuck or run.misuses or unstable(build_graph(run, READINGS[name])):
        return
    (only,) = matchings(program, Effort(10**11), LIMIT)
    assert landings(only) == landings(run)
    assert only.observed == run.observed
    assert not only.stuck and not only.misuses


@pytest.mark.parametrize("name", list(READINGS))
@settings(few, max_examples=30)
@given(program=programs())
def test_causality_and_z3_order_the_same_pairs(name: str, program: Program) -> None:
    graph = build_graph(run_once(program), READINGS[name])
    causality = Causality(graph)
    conflicts = Conflicts(graph, find_regions(program, None))
    for second in graph.accesses:
        surely = causality.before(second).surely
        for number in members(conflicts.earlier(second.number)):
            first = graph.accesses[number]
            answer = pair(graph, first, second)
            assert isinstance(answer, Core) == bool(surely >> number & 1)
            if isinstance(answer, Core):
                path = causality.path(first, second)
                assert path is not None
                assert answer.rules
