"""The library: its kernels are what their sources say, run to their end, and refuse nonsense.

Expected structure is counted from the descriptions in PR 9319 of flashinfer and PR 20449 of TVM,
not from the kernels. Verdicts are tested elsewhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from lastread.kernels_abstract import describe, load, names
from lastread.model.instructions import (
    Bar,
    MbarrierArrive,
    MbarrierTryWait,
    Store,
    Tcgen05Ld,
    Tcgen05Mma,
)
from lastread.model.program import Agent, Barrier, InputError, Program, Region, Step

BF16, FP8 = "flashinfer_mla_2cta_bf16", "flashinfer_mla_2cta_fp8"
SWAPS, KEEPS = "flashinfer_mla_1cta_swaps", "flashinfer_mla_1cta_keeps"
TVM, CPU = "tvm_merge_state_inplace", "tvm_merge_state_inplace_cpu"

PARAMETERS = {
    KEEPS: {"q": 2, "kv": 4, "s": 2, "p": 2, "stats": 2, "o": 1, "work": [8], "waits": True},
    SWAPS: {"q": 2, "kv": 4, "s": 1, "p": 1, "stats": 1, "o": 2, "work": [8], "waits": True},
    BF16: {
        "corr": 2, "p": 2, "o": 1, "s": 2, "kv": 7, "work": [8],
        "fix": False, "fix_in_runtime": False,
    },
    FP8: {
        "corr": 2, "p": 2, "o": 2, "s": 2, "k": 3, "v": 2, "slices": 2, "work": [8],
        "fix": False, "fix_in_runtime": False,
    },
    "record_ring": {"tiles": 8, "corr": 2, "fix": False},
    TVM: {
        "head_dim": 512, "heads": 8, "barrier": False, "single_store": False, "backend": "cuda",
    },
    CPU: {"head_dim": 512, "heads": 8},
}  # fmt: skip


def test_names_are_the_kernels_of_the_library():
    assert names() == sorted(PARAMETERS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_describe(name: str):
    description = describe(name)
    assert description.name == name
    assert description.parameters == PARAMETERS[name]
    assert 20 < len(description.purpose) < 110


@pytest.mark.parametrize("name", PARAMETERS)
def test_defaults_and_sources(name: str):
    program = load(name)
    assert (program.name, program.parameters, program.notes) == (name, PARAMETERS[name], [])
    for _, step in program.steps():
        assert program.lines[step.source.line - 1].strip() == step.source.text


# --- tasks: name, first warp, warps, lanes, CTAs --------------------------------------------------

TASKS = {
    BF16: [
        ("softmax", 0, 4, 32, 2),
        ("correction", 4, 4, 32, 2),
        ("mma", 8, 1, 1, 1),
        ("load", 9, 1, 1, 2),
    ],
    FP8: [
        ("softmax_even", 0, 4, 32, 2),
        ("softmax_odd", 12, 4, 32, 2),
        ("correction", 4, 4, 32, 2),
        ("mma_qk", 8, 1, 1, 1),
        ("mma_pv", 11, 1, 1, 1),
        ("load_k", 9, 1, 1, 2),
        ("load_v", 10, 1, 1, 2),
    ],
    SWAPS: [
        ("softmax0", 0, 4, 32, 1),
        ("softmax1", 4, 4, 32, 1),
        ("correction", 8, 4, 32, 1),
        ("mma", 12, 1, 1, 1),
        ("load", 15, 1, 1, 1),
    ],
    KEEPS: [
        ("softmax", 0, 4, 32, 1),
        ("correction", 4, 4, 32, 1),
        ("mma", 8, 1, 1, 1),
        ("load", 9, 1, 1, 1),
    ],
}


@pytest.mark.parametrize("name", TASKS)
def test_tasks(name: str):
    agents = load(name, work=[1]).agents
    expected = [
        (task, cta, warp, lanes)
        for task, first, warps, lanes, ctas in TASKS[name]
        for cta in range(ctas)
        for warp in range(first, first + warps)
    ]
    assert [(a.name, a.cta, a.warp, a.lanes) for a in agents] == expected


def of(program: Program, task: str) -> Agent:
    """The task's first warp of CTA 0."""
    return next(agent for agent in program.agents if agent.name == task and agent.cta == 0)


def texts(agent: Agent) -> list[str]:
    return [step.instruction.text for step in agent.steps]


# --- what one task does, in order -----------------------------------------------------------------

TILES = {
    (BF16, "softmax"): [
        "mbarrier.try_wait.parity s_full[0], 0",
        "tcgen05.ld s[0]",
        "tcgen05.ld s[0]",
        "row_max = masked_maximum(scores_low, scores_high)",
        "tcgen05.wait::ld",
        "mbarrier.arrive s_empty[0]",
        "st exchange",
        "bar.sync 1, 128",
        "ld exchange",
        "bar.sync 1, 128",
        "probabilities = exponentials(scores_low, scores_high, row_max, other_max)",
        "mbarrier.try_wait.parity p_empty[0], 1",
        "st p[0]",
        "fence.proxy.async",
        "mbarrier.arrive p_full[0]",
        "statistics = row_sum(probabilities, row_max, other_max)",
        "mbarrier.try_wait.parity corr_empty[0], 1",
        "tcgen05.st corr[0]",
        "tcgen05.wait::st",
        "mbarrier.arrive corr_full[0]",
    ],
    (BF16, "correction"): [
        "mbarrier.try_wait.parity corr_full[0], 0",
        "tcgen05.wait::ld",
        "tcgen05.ld corr[0]",
        "mbarrier.arrive corr_empty[0]",
        "mbarrier.try_wait.parity o_full[0], 0",
        "st lse[0]",
        "tcgen05.ld o",
        "normalised = multiply(result, record)",
        "st out[0]",
        "tcgen05.ld o",
        "normalised = multiply(result, record)",
        "st out[0]",
        "tcgen05.wait::ld",
        "tcgen05.wait::ld",
        "mbarrier.arrive o_empty[0]",
    ],
    (FP8, "mma_qk"): [
        "mbarrier.try_wait.parity q_full, 0",
        "mbarrier.try_wait.parity k_full[0], 0",
        "mbarrier.try_wait.parity s_empty[0], 1",
        "tcgen05.mma s[0], q, k[0]",
        "tcgen05.commit s_full[0]",
        "tcgen05.commit k_empty[0]",
        "tcgen05.commit q_empty",
    ],
    (FP8, "mma_pv"): [
        "mbarrier.try_wait.parity p_full[0], 0",
        "mbarrier.try_wait.parity v_full[0], 0",
        "mbarrier.try_wait.parity o_empty[0], 1",
        "tcgen05.mma o[0], p[0], v[0]",
        "tcgen05.commit o_full[0]",
        "mbarrier.try_wait.parity o_empty[1], 1",
        "tcgen05.mma o[1], p[0], v[0]",
        "tcgen05.commit o_full[1]",
        "tcgen05.commit v_empty[0]",
        "tcgen05.commit p_empty[0]",
    ],
}


@pytest.mark.parametrize(("name", "task"), TILES)
def test_a_work_item_of_one_tile(name: str, task: str):
    assert texts(of(load(name, work=[1]), task)) == TILES[name, task]


def test_the_program_order_of_the_mma_warp_is_one_tile_ahead():
    mma = of(load(BF16, work=[3, 1]), "mma")
    order = [
        ("PV" if step.instruction.a[0].array == "p" else "QK", step.tile)
        for step in mma.steps
        if isinstance(step.instruction, Tcgen05Mma)
    ]
    qk, pv = "QK", "PV"
    blocks = [(qk, 0), (qk, 1), (pv, 0), (qk, 2), (pv, 1), (pv, 2), (qk, 3), (pv, 3)]
    assert order == [block for block in blocks for _ in range(5 if block[0] == qk else 4)]


@pytest.mark.parametrize("name", [BF16, FP8, SWAPS, KEEPS])
def test_only_the_first_tile_of_an_item_does_not_read_o(name: str):
    program = load(name, work=[2, 1])
    fresh = Counter(
        step.tile
        for _, step in program.steps()
        if isinstance(step.instruction, Tcgen05Mma)
        and step.instruction.d[0].array == "o"
        and not step.instruction.accumulate
    )
    regions = 2 if name in (FP8, SWAPS) else 1
    assert fresh == {0: regions, 2: regions}


def test_both_ctas_are_operands_and_signalled():
    program = load(BF16, work=[1])
    for step in of(program, "mma").steps:
        if isinstance(step.instruction, Tcgen05Mma):
            operands = (step.instruction.d, step.instruction.a, step.instruction.b)
            assert all([region.cta for region in regions] == [0, 1] for regions in operands)
        else:
            assert {signal.barrier.cta for signal in step.instruction.signals} in (set(), {0, 1})


def test_tma_of_both_ctas_completes_the_bytes_that_the_leader_expects():
    program = load(BF16, work=[2])
    expected: Counter[Barrier] = Counter()
    completed: Counter[Barrier] = Counter()
    for agent, step in program.steps():
        if agent.name == "load":
            if isinstance(step.instruction, MbarrierArrive):
                assert agent.cta == 0
                expected[step.instruction.barrier] += step.instruction.expect
            for signal in step.instruction.signals:
                completed[signal.barrier] += signal.bytes
    assert expected == completed
    assert {barrier.cta for barrier in expected} == {0}
    assert expected[next(b for b in expected if b.label == "q_full")] == 147456
    assert sum(expected.values()) == 147456 + 2 * 9 * 32768


def test_the_slot_of_an_o_slice_in_fp8():
    correction = of(load(FP8, work=[2], o=3), "correction")
    waits = [text for text in texts(correction) if " o_full" in text]
    assert waits == [f"mbarrier.try_wait.parity o_full[{i % 3}], {i // 3}" for i in range(4)]


def test_a_softmax_group_reads_the_other_groups_record():
    program = load(FP8, work=[3], corr=4)
    odd, even = texts(of(program, "softmax_odd")), texts(of(program, "softmax_even"))
    assert [t for t in even if " corr[" in t] == [
        "tcgen05.st corr[0]", "tcgen05.ld corr[1]", "tcgen05.st corr[2]",
    ]  # fmt: skip
    assert [t for t in odd if " corr[" in t] == ["tcgen05.ld corr[0]", "tcgen05.st corr[1]"]
    named = [t for t in even if t.startswith("bar.") and t.endswith(" 256")]
    assert named == ["bar.arrive 6, 256", "bar.sync 5, 256"]
    named = [t for t in odd if t.startswith("bar.") and t.endswith(" 256")]
    assert named == ["bar.sync 6, 256", "bar.arrive 5, 256"]


# --- the fixes ------------------------------------------------------------------------------------


def around_record_loads(program: Program) -> Iterator[tuple[list[str], list[str]]]:
    """What stands between a record's load and the waits before it and the release after it."""
    for agent in program.agents:
        if agent.name == "correction":
            found = texts(agent)
            for place, step in enumerate(agent.steps):
                load = step.instruction
                if isinstance(load, Tcgen05Ld) and load.region.array in ("corr", "rec"):
                    yield found[place - 1 : place], found[place + 1 : place + 3]


@pytest.mark.parametrize("name", [BF16, FP8, "record_ring"])
def test_fix_moves_the_wait_behind_the_load(name: str):
    for before, after in around_record_loads(load(name)):
        assert before == ["tcgen05.wait::ld"]
        assert after[0].startswith("mbarrier.arrive ")
    for before, after in around_record_loads(load(name, fix=True)):
        assert before[0].startswith("mbarrier.try_wait")
        assert after[0] == "tcgen05.wait::ld"
        assert after[1].startswith("mbarrier.arrive ")
    assert Counter(step_texts(load(name))) == Counter(step_texts(load(name, fix=True)))


def step_texts(program: Program) -> list[str]:
    return [step.instruction.text for _, step in program.steps()]


RINGS_IN_TMEM = ("s", "corr", "o")


@pytest.mark.parametrize("name", [BF16, FP8])
def test_fix_in_runtime_waits_before_every_release_of_a_tensor_memory_ring(name: str):
    program = load(name, fix_in_runtime=True)
    releases = 0
    for agent in program.agents:
        found = texts(agent)
        for before, text in zip(found, found[1:], strict=False):
            if text.startswith(tuple(f"mbarrier.arrive {ring}_empty" for ring in RINGS_IN_TMEM)):
                assert before == "tcgen05.wait::ld"
                releases += 1
    slices = 1 if name == BF16 else 2
    assert releases == 2 * 4 * 8 * (2 + slices)


# --- tensor memory --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given"),
    [
        (BF16, {}),
        (BF16, {"corr": 6, "s": 4, "o": 3}),
        (FP8, {}),
        (FP8, {"corr": 6, "s": 4, "slices": 3, "o": 5}),
        (SWAPS, {"s": 3, "stats": 4}),
    ],
)
def test_no_two_elements_share_tensor_memory(name: str, given: dict[str, object]):
    regions = tmem(load(name, **given))
    clashes = [(a.label, b.label) for a in regions for b in regions if a != b and a.overlaps(b)]
    assert clashes == []


def tmem(program: Program) -> list[Region]:
    return [r for each in program.arrays.values() for r in each if r.space.value == "tmem"]


def test_tensor_memory_of_bf16():
    columns = {
        region.label: region.columns for region in tmem(load(BF16, corr=3)) if not region.cta
    }
    assert columns == {
        "s[0]": (0, 64),
        "s[1]": (64, 128),
        "o": (128, 384),
        "corr[0]": (384, 388),
        "corr[1]": (388, 392),
        "corr[2]": (392, 396),
    }


@pytest.mark.parametrize("given", [{}, {"s": 3, "p": 4, "stats": 5}, {"s": 1, "p": 2}])
def test_p_and_stats_alias_the_stage_of_s(given: dict[str, int]):
    program = load(KEEPS, **given)
    places = {region.label: region.columns for region in tmem(program)}
    stages = len(program.arrays["s"])
    for index in range(stages):
        start = places[f"s[{index}]"][0]
        if index < len(program.arrays["p"]):
            assert places[f"p[{index}]"] == (start + 32, start + 64)
        if index < len(program.arrays["stats"]):
            assert places[f"stats[{index}]"] == (start, start + 4)
    own = [r for r in tmem(program) if (r.index or 0) >= stages or r.array in ("s", "o")]
    assert [(a.label, b.label) for a in own for b in own if a != b and a.overlaps(b)] == []


# --- TVM ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("head_dim", "heads"), [(512, 8), (128, 2), (64, 1), (4, 3)])
def test_threads_of_merge_state(head_dim: int, heads: int):
    bdx = head_dim // 4
    agents = load(TVM, head_dim=head_dim, heads=heads).agents
    assert [(a.thread, a.warp, a.lanes) for a in agents] == [
        (thread, thread // 32, 1) for thread in range(bdx * heads)
    ]
    rows = [agent.steps[0].instruction.accesses[0].region.index for agent in agents]
    assert rows == [thread // bdx for thread in range(bdx * heads)]


VARIANTS = [
    ({}, 32, None),
    ({"single_store": True}, 1, None),
    ({"barrier": True}, 32, "bar.sync 0, 64"),
    (
        {"barrier": True, "single_store": True, "backend": "metal"},
        1,
        "threadgroup_barrier(mem_threadgroup)",
    ),
]


@pytest.mark.parametrize(("given", "stores", "barrier"), VARIANTS)
def test_halves_of_the_tvm_fix(given: dict[str, object], stores: int, barrier: str | None):
    program = load(TVM, head_dim=128, heads=2, **given)
    found = [
        (step.position, step.instruction.region.label)
        for _, step in program.steps()
        if isinstance(step.instruction, Store) and step.instruction.region.array == "S"
    ]
    assert Counter(found) == {(found[0][0], f"S[{row}]"): stores for row in range(2)}
    barriers = {s.instruction.text for _, s in program.steps() if isinstance(s.instruction, Bar)}
    assert barriers == ({barrier} if barrier else set())


def test_the_cpu_version_is_serial():
    program = load(CPU, head_dim=8, heads=2)
    assert [(agent.lanes, len(agent.steps)) for agent in program.agents] == [(1, 2 * (5 + 2 * 4))]


# --- every kernel runs to its end, and every count adds up ----------------------------------------


@dataclass
class Object:
    """An mbarrier, as §9.7.15.16 describes it."""

    count: int
    phase: int = 0
    pending: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.pending = self.count

    def signal(self, arrivals: int, added: int) -> None:
        self.bytes += added
        self.pending -= arrivals
        assert self.pending >= 0, "more arrivals than the count"
        if self.pending == self.bytes == 0:
            self.phase += 1
            self.pending = self.count


class Run:
    """A fair schedule in which asynchronous work is done at once; none of `model`'s engines."""

    def __init__(self, program: Program) -> None:
        self.agents = program.agents
        self.objects = {barrier: Object(barrier.count or 0) for barrier in program.barriers}
        self.named: dict[tuple[int, int], int] = defaultdict(int)
        self.place = [0] * len(self.agents)
        self.inside: dict[int, int] = {}

    def to_the_end(self) -> list[str]:
        """Runs; returns the instructions at which agents are stuck."""
        while sum(self.advance(number) for number in range(len(self.agents))):
            pass
        return [
            f"{agent.label}: {agent.steps[place].instruction.text}"
            for agent, place in zip(self.agents, self.place, strict=True)
            if place < len(agent.steps)
        ]

    def advance(self, number: int) -> int:
        """Executes what one agent can; returns how many steps."""
        agent, start = self.agents[number], self.place[number]
        while self.place[number] < len(agent.steps):
            if not self.execute(number, agent, agent.steps[self.place[number]]):
                break
            self.place[number] += 1
        return self.place[number] - start

    def execute(self, number: int, agent: Agent, step: Step) -> bool:
        instruction = step.instruction
        if isinstance(instruction, MbarrierTryWait):
            return self.objects[instruction.barrier].phase % 2 != instruction.parity
        if isinstance(instruction, Bar):
            return self.meet(number, agent, instruction)
        if isinstance(instruction, MbarrierArrive):
            added = instruction.expect - instruction.complete
            arrivals = instruction.count * agent.lanes
            self.objects[instruction.barrier].signal(arrivals, added)
        for signal in instruction.signals:
            self.objects[signal.barrier].signal(signal.count, -signal.bytes)
        return True

    def meet(self, number: int, agent: Agent, bar: Bar) -> bool:
        """`named` counts threads for ever: generation g is complete at (g + 1) * threads."""
        key = (agent.cta, bar.id)
        if number not in self.inside:
            self.inside[number] = self.named[key] // bar.threads
            self.named[key] += agent.lanes
        done = not bar.waits or self.named[key] // bar.threads > self.inside[number]
        if done:
            del self.inside[number]
        return done


RUNS: list[tuple[str, dict[str, object]]] = [
    *((name, {}) for name in PARAMETERS),
    *((name, {"fix": True}) for name in (BF16, FP8, "record_ring")),
    *((name, {"work": work}) for name in TASKS for work in ([1], [2, 5], [1, 3, 2, 1, 1, 4])),
    *((name, {"work": [3, 4], "o": 3, "p": 3, "s": 3}) for name in TASKS),
    *((name, {"work": [3, 4], "o": 1, "p": 1, "s": 1}) for name in (BF16, KEEPS)),
    # Not with p or s of 1 (two groups in turn), nor with o of 1 (two instances): these get stuck.
    (FP8, {"work": [3, 4], "o": 1}),
    (SWAPS, {"work": [3, 4], "q": 1, "kv": 1}),
    *((name, {"work": [3, 4], "corr": corr}) for name in (BF16, FP8) for corr in (1, 3)),
    (BF16, {"work": [2, 3], "kv": 3}),
    (FP8, {"work": [2, 3], "k": 1, "v": 1, "slices": 3}),
    ("record_ring", {"tiles": 7, "corr": 3}),
]


@pytest.mark.parametrize(("name", "given"), RUNS, ids=str)
def test_runs_to_its_end(name: str, given: dict[str, object]):
    run = Run(load(name, **given))
    assert run.to_the_end() == []
    left = [b.label for b, o in run.objects.items() if o.pending != o.count or o.bytes]
    assert left == []


# --- nonsense -------------------------------------------------------------------------------------

DEPTHS = {
    BF16: ["corr", "p", "o", "s", "kv"],
    FP8: ["corr", "p", "o", "s", "k", "v", "slices"],
    SWAPS: ["q", "kv", "s", "p", "stats", "o"],
    KEEPS: ["q", "kv", "s", "p", "stats", "o"],
    "record_ring": ["tiles", "corr"],
    TVM: ["head_dim", "heads"],
    CPU: ["head_dim", "heads"],
}


@pytest.mark.parametrize(
    ("name", "depth"), [(n, d) for n, depths in DEPTHS.items() for d in depths]
)
@pytest.mark.parametrize("value", [0, -1])
def test_depths_and_counts_are_positive(name: str, depth: str, value: int):
    with pytest.raises(InputError, match="at least|positive"):
        load(name, **{depth: value})


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("work", [[], [0], [3, 0], [-1]])
def test_work_items_have_tiles(name: str, work: list[int]):
    with pytest.raises(InputError, match="at least one"):
        load(name, work=work)


def test_head_dim_is_a_multiple_of_the_vector():
    with pytest.raises(InputError, match="multiple of 4"):
        load(TVM, head_dim=130)


def test_an_unknown_kernel_is_suggested():
    with pytest.raises(InputError, match="did you mean `record_ring`"):
        load("record_rin")


def test_a_parameter_named_like_a_target_is_explained():
    with pytest.raises(InputError, match="given with `--set work=32`"):
        load("work=32")
