"""The interleavings engine on small programs of which all schedules are known.

Names like M14 are cases of public bugs (issue trackers of the kernels' projects); their verdicts
were checked by an explicit-state search of their own.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from lastread.model import instructions as ins
from lastread.model.checking import Question
from lastread.model.interleavings import MAX_OPERATIONS, Exploration, explore, matchings
from lastread.model.program import (
    Agent,
    Barrier,
    BudgetExceeded,
    Choice,
    Program,
    Region,
    Source,
    Space,
    Step,
)
from lastread.model.readings import reading_named
from lastread.model.smt import Effort

Steps = list[ins.Instruction]
ARRAYS = {"buf": 0, "A": 1024, "B": 2048, "S": 4096}
UNITS = 10**11  # of z3's work: as good as no limit


# --- a small assembler -----------------------------------------------------------------------


def barrier(name: str, count: int = 1, index: int | None = None) -> Barrier:
    return Barrier(name, index, 0, count)


def ring(name: str, depth: int, count: int = 1) -> list[Barrier]:
    return [barrier(name, count, slot) for slot in range(depth)]


def shared(name: str, index: int = 0) -> Region:
    start = ARRAYS[name] + 64 * index
    return Region(Space.SHARED, 0, (start, start + 64), array=name, index=index)


def tensor(name: str) -> Region:
    return Region(Space.TMEM, 0, (0, 32), (0, 128), array=name)


def wait(at: Barrier, parity: int) -> ins.Instruction:
    return ins.MbarrierTryWait(at, parity=parity & 1)


def arrive(at: Barrier, expect: int = 0) -> ins.Instruction:
    return ins.MbarrierArrive(at, expect=expect)


def expect(at: Barrier, size: int) -> ins.Instruction:
    return ins.MbarrierArrive(at, count=0, expect=size)


def copy(to: Region, at: Barrier, size: int = 64) -> ins.Instruction:
    return ins.BulkCopy((to,), targets=(ins.Signal(at, bytes=size),))


def read(region: Region) -> Steps:
    return [ins.Load(region, "r"), ins.Use(("r",))]


def bar(threads: int, waits: bool = True) -> ins.Instruction:
    return ins.Bar(1, threads, waits)


def program(barriers: list[Barrier], lanes: int = 1, **agents: Steps) -> Program:
    """Every agent is `lanes` threads of a warp of its own."""
    made = []
    for warp, (name, instructions) in enumerate(agents.items()):
        steps = [Step(each, Source(line)) for line, each in enumerate(instructions, 1)]
        made.append(Agent(name, 0, warp, lanes, steps, 32 * warp))
    regions = {
        access.region: None
        for agent in made
        for step in agent.steps
        for access in step.instruction.accesses
    }
    arrays: dict[str, list[Region]] = {}
    for region in regions:
        arrays.setdefault(region.array, []).append(region)
    return Program("small", {}, made, arrays, barriers)


def explored(small: Program, reading: str = "hardware") -> Exploration:
    found = explore(Question(small, reading_named(reading)), UNITS, 500)
    assert found.complete, found.reason
    assert not found.disagreements
    return found


def kinds(small: Program, reading: str = "hardware") -> set[str]:
    return {f.kind for f in explored(small, reading).findings if f.severity == "error"}


def verdicts(small: Program) -> tuple[int, set[str]]:
    found = explored(small)
    return len(found.runs), {f.kind for f in found.findings if f.severity == "error"}


OK = (1, set[str]())

# --- counts and transaction bytes ------------------------------------------------------------


def m07(copies: int) -> Program:
    """Several warps each deliver what is expected once."""
    b = barrier("b")
    warps = {f"warp{n}": [copy(shared("buf"), b)] for n in range(copies)}
    receiver = [arrive(b, 64), wait(b, 0), *read(shared("buf"))]
    return program([b], receiver=receiver, **warps)


def test_one_copy_meets_its_expectation() -> None:
    assert verdicts(m07(1)) == OK


def test_more_bytes_than_expected_drive_the_next_phase() -> None:
    number, found = verdicts(m07(2))
    assert number > 1
    assert {"race", "count", "deadlock"} <= found


def m11(form: str) -> Program:
    """TMA loads issued before, or apart from, the arrival that expects their bytes."""
    reader = [*read(shared("A"))]
    if form == "a":
        b = barrier("b")
        issuer = [copy(shared("A"), b), arrive(b, 64)]
        return program([b], issuer=issuer, reader=[wait(b, 0), *reader])
    if form == "b":
        b = barrier("b", 4)
        issuer = [copy(shared("A", n), b) for n in range(3)]
        armer = [arrive(b, 192)]
        others = {f"thread{n}": [arrive(b)] for n in range(3)}
        return program([b], issuer=issuer, armer=armer, reader=[wait(b, 0), *reader], **others)
    b = barrier("b")
    issuer = [expect(b, 64), copy(shared("A"), b)]
    return program([b], issuer=issuer, arriver=[arrive(b)], reader=[wait(b, 0), *reader])


@pytest.mark.parametrize("form", ["a", "b"])
def test_bytes_may_arrive_before_they_are_expected(form: str) -> None:
    assert verdicts(m11(form)) == OK


def test_expectation_apart_from_the_last_arrival() -> None:
    number, found = verdicts(m11("c"))
    assert number > 1
    assert {"race", "count"} <= found


def t17(lanes: int, count: int) -> Program:
    """Two warps free what the other uses, after the other's lanes have all arrived."""
    mine = [barrier(f"d{cta}", count) for cta in range(2)]
    agents: dict[str, Steps] = {}
    for cta in range(2):
        for lane in range(lanes):
            agents[f"cta{cta}_lane{lane}"] = [arrive(mine[1 - cta]), wait(mine[cta], 0)]
    return program(mine, **agents)


def test_every_lane_arrives_where_one_is_counted() -> None:
    assert verdicts(t17(1, 1)) == OK
    assert verdicts(t17(2, 2)) == OK
    number, found = verdicts(t17(2, 1))
    assert number > 1
    assert {"deadlock", "count"} <= found


# --- named barriers --------------------------------------------------------------------------


def m13(threads: int) -> Program:
    """A warpgroup arrives, another waits: the count is that of both."""
    writer = [ins.Store(shared("S")), bar(threads, waits=False)]
    return program([], 128, writer=writer, reader=[bar(threads), *read(shared("S"))])


def test_a_named_barrier_counts_arrivers_and_waiters() -> None:
    assert verdicts(m13(256)) == OK
    _, found = verdicts(m13(128))
    assert found & {"deadlock", "race"}


def test_generations_of_a_named_barrier_follow_the_schedule() -> None:
    """Three warps at a barrier for two: who is left over depends on the schedule."""
    warps = {f"warp{n}": [bar(64)] for n in range(3)}
    number, found = verdicts(program([], 32, **warps))
    assert number == 3  # whichever is left over waits for ever
    assert "deadlock" in found


# --- parity ----------------------------------------------------------------------------------


def m14(depth: int, iterations: int, fixed: bool) -> Program:
    """The parity law of a ring applied to a barrier of one slot."""
    m, full = barrier("m"), ring("full", depth)

    def load(tile: int) -> Steps:
        slot = tile % depth
        return [arrive(full[slot], 64), copy(shared("A", slot), full[slot])]

    steps = [step for tile in range(depth - 1) for step in load(tile)]
    for k in range(iterations):
        steps += load(k + depth - 1)
        steps += [
            wait(full[k % depth], k // depth),
            ins.Tcgen05Mma((tensor("D"),), b=(shared("A", k % depth),)),
            ins.Tcgen05Commit((m,)),
            wait(m, k if fixed else k // depth),
        ]
    return program([m, *full], worker=steps)


@pytest.mark.parametrize(("depth", "fixed"), [(1, False), (2, True), (3, True)])
def test_a_barrier_of_one_slot_with_the_parity_of_the_iteration(depth: int, fixed: bool) -> None:
    assert verdicts(m14(depth, 4, fixed)) == OK


@pytest.mark.parametrize("depth", [2, 3])
def test_a_ring_parity_on_a_barrier_of_one_slot(depth: int) -> None:
    number, found = verdicts(m14(depth, 3, fixed=False))
    assert number > 1
    assert {"race", "deadlock"} <= found


def m16(fixed: bool, jobs: int = 3) -> Program:
    """A producer that never learns that its readers have seen the phase."""
    full, consumed = barrier("full"), barrier("consumed", 2)
    producer: Steps = []
    reader: Steps = []
    for job in range(jobs):
        if fixed and job:
            producer.append(wait(consumed, job - 1))
        producer += [arrive(full, 64), copy(shared("buf"), full), wait(full, job)]
        reader += [wait(full, job), *read(shared("buf")), *([arrive(consumed)] if fixed else [])]
    return program([full, consumed], producer=producer, reader0=reader, reader1=list(reader))


def test_a_reader_may_miss_a_phase() -> None:
    number, found = verdicts(m16(fixed=False))
    assert number > 1
    assert {"lap", "deadlock", "race"} <= found
    assert verdicts(m16(fixed=True)) == OK


def m18(depth: int, groups: int = 2, rounds: int = 1) -> Program:
    """Two groups of readers, two rows each, share a ring of slots; each waits for its own rows."""
    full, empty = ring("full", depth), ring("empty", depth)
    loads = [4 * r + 2 * g + row for r in range(rounds) for g in range(groups) for row in range(2)]
    producer: Steps = []
    readers: dict[str, Steps] = {f"group{g}": [] for g in range(groups)}
    readers["group0"] += [arrive(empty[slot]) for slot in range(depth)]
    for n in loads:
        slot, parity = n % depth, n // depth
        producer += [wait(empty[slot], parity), arrive(full[slot], 64)]
        producer.append(copy(shared("A", slot), full[slot]))
        reader = readers[f"group{n // 2 % 2}"]
        reader += [wait(full[slot], parity), *read(shared("A", slot)), arrive(empty[slot])]
    return program(full + empty, producer=producer, **readers)


def test_two_groups_on_a_ring_too_shallow() -> None:
    number, found = verdicts(m18(depth=3))
    assert number > 1
    assert {"race", "count", "deadlock"} <= found


def test_two_groups_on_a_ring_as_deep_as_their_rows() -> None:
    assert verdicts(m18(depth=4)) == OK


def pipeline(depth: int, tiles: int, first: int = 1) -> Program:
    """A ring; the producer's first wait has parity `first`."""
    full, empty = ring("full", depth), ring("empty", depth)
    producer: Steps = []
    consumer: Steps = []
    for t in range(tiles):
        slot, use = t % depth, t // depth
        producer += [wait(empty[slot], use ^ first), arrive(full[slot], 64)]
        producer.append(copy(shared("A", slot), full[slot]))
        consumer += [wait(full[slot], use), *read(shared("A", slot)), arrive(empty[slot])]
    return program(full + empty, producer=producer, consumer=consumer)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_producer_starts_on_the_parity_of_an_empty_ring(depth: int) -> None:
    assert verdicts(pipeline(depth, 4)) == OK
    assert verdicts(pipeline(depth, 4, first=0)) == (1, {"deadlock"})


def m21(fixed: bool, tiles: int = 3) -> Program:
    """A producer that never waits for its slot to be empty again."""
    full, empty = barrier("si_full"), barrier("si_empty")
    state = tensor("state")
    producer: Steps = []
    consumer: Steps = []
    for i in range(tiles):
        if fixed:
            producer.append(wait(empty, i ^ 1))
        producer += [ins.Tcgen05St(state), ins.Tcgen05Wait(stores=True), arrive(full)]
        mma = ins.Tcgen05Mma((tensor("D"),), a=(state,), accumulate=False)
        consumer += [wait(full, i), mma, ins.Tcgen05Commit((empty,))]
    return program([full, empty], producer=producer, consumer=consumer)


def test_a_producer_laps_its_consumer() -> None:
    number, found = verdicts(m21(fixed=False))
    assert number > 1
    assert {"race", "lap"} <= found
    assert verdicts(m21(fixed=True)) == OK


# --- deadlock in some schedules only ---------------------------------------------------------


def d01(word: str, fixed: bool = False) -> Program:
    """Tiles without work (E) among tiles with work (N); before the fix, an E arrives where nobody
    waits for it."""
    names = ("sc_full", "sc_empty", "s_full", "o_full", "o_empty")
    sc_full, sc_empty, s_full, o_full, o_empty = (barrier(name) for name in names)
    p_full = barrier("p_full", 2)
    softmax: Steps = []
    correction: Steps = []
    mma: Steps = []
    for tile, kind in enumerate(word):
        use = word[:tile].count("N")
        if kind == "N":
            mma += [wait(o_empty, use ^ 1), arrive(s_full), wait(p_full, use), arrive(o_full)]
            softmax += [wait(s_full, use), wait(sc_empty, tile ^ 1)]
            softmax += [arrive(sc_full), arrive(p_full)]
            correction += [wait(sc_full, tile), arrive(sc_empty), arrive(p_full)]
            correction += [wait(o_full, use), arrive(o_empty)]
        elif fixed:
            softmax += [wait(sc_empty, tile ^ 1), arrive(sc_full)]
            correction += [wait(sc_full, tile), arrive(sc_empty)]
        else:
            softmax += [arrive(sc_full), arrive(p_full), arrive(sc_empty)]
            correction += [wait(sc_full, tile), arrive(sc_empty), arrive(p_full)]
    barriers = [sc_full, sc_empty, s_full, o_full, o_empty, p_full]
    return program(barriers, softmax=softmax, correction=correction, mma=mma)


WORDS = ["E", "N", "EE", "EN", "NE", "NN", "ENN", "NEN", "NNE", "EEN", "NNN"]


@pytest.mark.parametrize("word", WORDS)
def test_tiles_without_work(word: str) -> None:
    hangs = len(word) > 1 and "E" in word
    assert ("deadlock" in kinds(d01(word))) == hangs
    assert "deadlock" not in kinds(d01(word, fixed=True))


def test_a_deadlock_of_few_schedules_shows_how_it_comes_about() -> None:
    found = explored(m16(fixed=False, jobs=2))
    assert any(not run.stuck for run in found.runs)
    deadlock = next(f for f in found.findings if f.kind == "deadlock")
    assert deadlock.schedule[-1].event == "blocked"
    assert any(row.event == "complete" for row in deadlock.schedule)


# --- lanes of one warp -----------------------------------------------------------------------


def one_warp(barriers: list[Barrier], *lanes: Steps) -> Program:
    """Each strand is one lane; steps of equal index are one instruction of the warp."""
    small = program(barriers, **{f"lane{n}": steps for n, steps in enumerate(lanes)})
    for number, agent in enumerate(small.agents):
        agent.warp, agent.thread = 0, number
    return small


def test_lanes_in_step_match_in_one_way() -> None:
    """The first lane arrives a step earlier than the second, and a third sees the phase between."""
    b = barrier("b")
    small = one_warp([b], [arrive(b)], [ins.Compute("r", ()), arrive(b)], [wait(b, 0)])
    for together, number in ((True, 1), (False, 4)):
        assert len(list(matchings(small, Effort(UNITS), 50, together))) == number


def test_a_blocked_lane_does_not_hold_the_others_back() -> None:
    b = barrier("b")
    small = one_warp([b], [wait(b, 0)], [ins.Compute("r", ()), arrive(b)])
    (run,) = matchings(small, Effort(UNITS), 50, together=True)
    assert not run.stuck


# --- barriers with a life --------------------------------------------------------------------


def test_an_arrival_before_the_initialisation_is_lost() -> None:
    b = Barrier("b", None, 0, None)
    early = program([b], owner=[ins.MbarrierInit(b, 1), wait(b, 0)], other=[arrive(b)])
    number, found = verdicts(early)
    assert number == 2
    assert {"lifetime", "deadlock"} <= found


def test_a_barrier_initialised_behind_a_named_barrier() -> None:
    b = Barrier("b", None, 0, None)
    owner = [ins.MbarrierInit(b, 1), bar(64), wait(b, 0)]
    assert verdicts(program([b], 32, owner=owner, other=[bar(64), *[arrive_one(b)]]))[0] == 1


def arrive_one(at: Barrier) -> ins.Instruction:
    """One arrival of a whole warp is its 32 lanes; a commit is one."""
    return ins.Tcgen05Commit((at,))


def test_a_cluster_barrier_waits_for_all_that_have_not_exited() -> None:
    b = barrier("b")
    one = [ins.ClusterArrive(), ins.ClusterWait(), arrive(b)]
    assert verdicts(program([b], one=one, two=[wait(b, 1)])) == OK
    assert verdicts(program([b], one=one, two=[wait(b, 0)])) == (1, {"deadlock"})


# --- proofs and limits -----------------------------------------------------------------------


def x15(fixed: bool) -> Program:
    """A consumer that releases its slot before it reads."""
    arrived, finished = barrier("arrived"), barrier("finished")
    release, reads = arrive(finished), read(shared("S"))
    scheduler = [ins.Store(shared("S")), arrive(arrived), wait(finished, 0)]
    scheduler += [ins.Store(shared("S")), arrive(arrived)]
    consumer = [wait(arrived, 0), *([*reads, release] if fixed else [release, *reads])]
    return program([arrived, finished], scheduler=scheduler, consumer=consumer)


def test_an_early_release_races_and_a_late_one_is_proved() -> None:
    assert verdicts(x15(fixed=False)) == (1, {"race"})
    found = explored(x15(fixed=True))
    assert found.unique and not found.findings
    assert found.cores["S", "overwrite-before-last-read"] == ("release", "mbarrier", "po")


@pytest.mark.parametrize("arrivals", [100, MAX_OPERATIONS + 1, 100_000])
def test_large_programs_are_refused_before_anything_is_built(arrivals: int) -> None:
    b = barrier("b")
    large = program([b], one=[arrive(b)] * arrivals)
    started = time.monotonic()
    found = explore(Question(large, reading_named("ptx")))
    assert not found.complete
    assert "too many to search schedules" in found.reason
    assert time.monotonic() - started < 1.0


def test_z3_is_imported_only_when_it_is_asked() -> None:
    code = "import sys, lastread.model.interleavings; sys.exit('z3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_out_of_time_is_not_complete() -> None:
    found = explore(Question(pipeline(2, 12), reading_named("ptx")), units=1)
    assert not found.complete
    assert "limit of work" in found.reason


def test_more_matchings_than_the_limit_is_not_complete() -> None:
    found = explore(Question(m16(fixed=False), reading_named("ptx")), UNITS, limit=2)
    assert not found.complete
    assert len(found.runs) == 2


def test_a_branch_around_synchronization_is_refused() -> None:
    b = barrier("b")
    small = program([b], one=[arrive(b)])
    small.agents[0].steps[0].guard = frozenset({(Choice("vote", 0), True)})
    with pytest.raises(BudgetExceeded, match="data-dependent"):
        next(matchings(small, Effort(UNITS)))
