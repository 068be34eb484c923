"""The kernel language: what text means, what is refused and how, and what stays bounded."""

import re
import time
from pathlib import Path

import pytest
from lastread.kernels_abstract import KernelBuilder, load
from lastread.kernels_abstract.expand import expand
from lastread.kernels_abstract.opcodes import TABLE
from lastread.kernels_abstract.parser import parse
from lastread.model import instructions as model
from lastread.model.instructions import Role, Scope, Sem, Signal
from lastread.model.program import BudgetExceeded, InputError, Program, Source, Space, Step

DOCS = Path(__file__).parents[2] / "docs" / "kernel-language.md"

# The sketch of the design, word for word.
SKETCH = """\
kernel record_ring(tiles = 8, corr = 2, fix = false)
tmem rec[corr]
mbarrier full[corr] count 128, empty[corr] count 128

agent softmax: 4 warps, cta 0
  for t in 0..tiles
    mbarrier.try_wait.parity empty[t % corr], ((t / corr) & 1) ^ 1
    tcgen05.st rec[t % corr]
    tcgen05.wait::st
    mbarrier.arrive full[t % corr]
"""

DECLARATIONS = """\
kernel k(n = 4, d = 2, w = [1, 2], f = false, b = cuda | metal)
cluster 2
tmem T[d] columns 8 at 64, A columns 16
shared H[d] bytes 64, word
global G[d] bytes 256
mbarrier m[d] count 32, single count 1, late uninitialized
ring r: full m, empty m, depth d
"""


def build(text: str, **parameters: object) -> Program:
    return expand(parse(text, "test.kernel"), parameters)


def agent(body: str, who: str = "1 warp, cta 0", **parameters: object) -> Program:
    """A program of one agent with `body`, on the declarations above."""
    lines = "\n".join("  " + line for line in body.splitlines())
    return build(f"{DECLARATIONS}agent t: {who}\n{lines}\n", **parameters)


def steps(body: str, who: str = "1 warp, cta 0") -> list[Step]:
    return agent(body, who).agents[0].steps


def texts(found: list[Step]) -> list[str]:
    return [step.instruction.text for step in found]


def test_the_sketch_of_the_design():
    program = build(SKETCH, tiles=3)
    assert (program.name, program.parameters) == (
        "record_ring",
        {"tiles": 3, "corr": 2, "fix": False},
    )
    assert [(a.name, a.cta, a.warp, a.lanes, a.thread) for a in program.agents] == [
        ("softmax", 0, warp, 32, 32 * warp) for warp in range(4)
    ]
    assert [(b.label, b.cta, b.count) for b in program.barriers] == [
        ("full[0]", 0, 128),
        ("full[1]", 0, 128),
        ("empty[0]", 0, 128),
        ("empty[1]", 0, 128),
    ]
    first = program.agents[1].steps[:4]
    assert texts(first) == [
        "mbarrier.try_wait.parity empty[0], 1",
        "tcgen05.st rec[0]",
        "tcgen05.wait::st",
        "mbarrier.arrive full[0]",
    ]
    assert [step.tile for step in program.agents[1].steps] == [0] * 4 + [1] * 4 + [2] * 4
    parities = [
        step.instruction.parity
        for step in program.agents[0].steps
        if isinstance(step.instruction, model.MbarrierTryWait)
    ]
    assert parities == [1, 1, 0]
    assert first[1].instruction.accesses[0].region.rows == (32, 64)
    assert (first[1].source.line, first[1].source.column) == (8, 5)
    assert first[1].source.text == "tcgen05.st rec[t % corr]"


# --- expressions ----------------------------------------------------------------------------------

EXPRESSIONS = {
    "1 + 2 * 3 - 4": 3,
    "(1 + 2) * 3": 9,
    "7 / 2 + 7 // 2 + 7 % 2": 7,
    "-7 / 2": -4,
    "((5 / 2) & 1) ^ 1": 1,
    "1 << 4 | 2 ^ 3 & 1": 19,
    "256 >> 2": 64,
    "-n * 2": -8,
    "3 - -2": 5,
    "10 - 3 - 2": 5,
    "1 if n > 3 and not f else 2": 1,
    "1 if n < 3 else 2 if n == 4 else 3": 2,
    "1 if not n == 4 or f else 2": 2,
    "1 if b == cuda else 2": 1,
    "1 if b != metal else 2": 1,
    "1 if w == [1, 2] else 2": 1,
    "min(w) + max(w) + len(w) + sum(w)": 8,
    "min(n, d) + max(n, d, 9)": 11,
    "w[1] + [5, 6][0]": 7,
    "n <= 4": 1,
    "n >= 5": 0,
    "cta + warp + thread": 3 * 32 + 3,
}


@pytest.mark.parametrize(("text", "value"), EXPRESSIONS.items())
def test_expression(text: str, value: int):
    assert steps(f"tile {text}\nbar.sync 0", "1 warp at 3, cta 0")[0].tile == value


# --- one row an instruction: text, class, what its fields are -------------------------------------

INSTRUCTIONS: list[tuple[str, type[model.Instruction], dict[str, object]]] = [
    ("ld r <- H[0]", model.Load, {"register": "r", "sem": Sem.WEAK}),
    ("ld.acquire.gpu.global.b32 r <- G[0]", model.Load, {"sem": Sem.ACQUIRE, "scope": Scope.GPU}),
    ("ld word", model.Load, {"register": ""}),
    ("st H[0] <- r", model.Store, {"registers": ("r",), "value": None}),
    ("st.release.sys G[1] <- 7", model.Store, {"registers": (), "value": "7", "sem": Sem.RELEASE}),
    ("atom.acq_rel.cta q <- G[0], r", model.Atomic, {"register": "q", "registers": ("r",)}),
    ("red.add G[0] <- r", model.Atomic, {"scope": Scope.GPU, "sem": Sem.RELAXED}),
    ("fence.acq_rel.gpu", model.Fence, {"sem": Sem.ACQ_REL, "scope": Scope.GPU}),
    ("fence.proxy.async", model.FenceProxyAsync, {"space": None}),
    ("fence.proxy.async.shared::cta", model.FenceProxyAsync, {"space": Space.SHARED}),
    ("fence.mbarrier_init.release.cluster", model.FenceMbarrierInit, {}),
    ("vote.any r", model.Use, {"registers": ("r",), "kind": "vote"}),
    ("shfl r", model.Use, {"kind": "shfl"}),
    ("use r", model.Use, {"kind": "use"}),
    ("x = scale(r, r)", model.Compute, {"register": "x", "registers": ("r", "r")}),
    ("mbarrier.init late, 3", model.MbarrierInit, {"count": 3}),
    ("mbarrier.inval late", model.MbarrierInval, {}),
    ("mbarrier.arrive m[1]", model.MbarrierArrive, {"count": 1, "scope": Scope.CTA}),
    ("mbarrier.arrive.relaxed.cluster single@1, 2", model.MbarrierArrive,
     {"count": 2, "sem": Sem.RELAXED, "scope": Scope.CLUSTER}),
    ("mbarrier.arrive.expect_tx m[0], 64", model.MbarrierArrive, {"count": 1, "expect": 64}),
    ("mbarrier.expect_tx m[0], 64", model.MbarrierArrive,
     {"count": 0, "expect": 64, "sem": Sem.RELAXED}),
    ("mbarrier.complete_tx m[0], 64", model.MbarrierArrive, {"count": 0, "complete": 64}),
    ("mbarrier.try_wait.parity m[0], 1", model.MbarrierTryWait,
     {"parity": 1, "sem": Sem.ACQUIRE, "scope": Scope.CTA}),
    ("mbarrier.try_wait.parity.relaxed.cluster m[0], 0", model.MbarrierTryWait,
     {"sem": Sem.RELAXED, "scope": Scope.CLUSTER}),
    ("bar.sync 1, 128", model.Bar, {"id": 1, "threads": 128, "waits": True}),
    ("bar.sync 0", model.Bar, {"threads": 32}),
    ("bar.arrive 2, 64", model.Bar, {"waits": False}),
    ("threadgroup_barrier(mem_threadgroup)", model.Bar,
     {"spaces": frozenset((Space.SHARED,)), "name": "threadgroup_barrier(mem_threadgroup)"}),
    ("threadgroup_barrier(mem_device, mem_threadgroup)", model.Bar,
     {"spaces": frozenset((Space.SHARED, Space.GLOBAL))}),
    ("bar.warp.sync", model.BarWarpSync, {"mask": 0xFFFFFFFF}),
    ("barrier.cluster.arrive.relaxed", model.ClusterArrive, {"sem": Sem.RELAXED}),
    ("barrier.cluster.wait", model.ClusterWait, {"sem": Sem.ACQUIRE}),
    ("cp.async.cg H[0] <- G[0]", model.CpAsync, {}),
    ("cp.async.commit_group", model.CpAsyncCommitGroup, {}),
    ("cp.async.wait_group 2", model.CpAsyncWaitGroup, {"pending": 2}),
    ("cp.async.wait_all", model.CpAsyncWaitGroup, {"pending": None}),
    ("cp.async.mbarrier.arrive.noinc m[0]", model.CpAsyncMbarrierArrive,
     {"noinc": True, "lanes": 32}),
    ("cp.async.bulk.tensor.2d H[0] mbarrier m[0] bytes 64", model.BulkCopy, {}),
    ("cp.async.bulk G[0] <- H[0]", model.BulkCopy, {"targets": ()}),
    ("cp.async.bulk.commit_group", model.BulkCommitGroup, {}),
    ("cp.async.bulk.wait_group.read 1", model.BulkWaitGroup, {"pending": 1, "read": True}),
    ("st.async.shared::cluster H[0] mbarrier m[0] bytes 64", model.StAsync, {"reduces": False}),
    ("wgmma.fence.sync.aligned", model.WgmmaFence, {}),
    ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 H[0], H[1]", model.WgmmaMma, {}),
    ("wgmma.commit_group", model.WgmmaCommitGroup, {}),
    ("wgmma.wait_group.sync.aligned 1", model.WgmmaWaitGroup, {"pending": 1}),
    ("tcgen05.alloc T, word", model.Tcgen05Alloc, {}),
    ("tcgen05.dealloc T", model.Tcgen05Dealloc, {}),
    ("tcgen05.ld.sync.aligned.32x32b.x4.b32 q <- T[1]", model.Tcgen05Ld, {"register": "q"}),
    ("tcgen05.st T[1] <- r", model.Tcgen05St, {"registers": ("r",)}),
    ("tcgen05.cp.4x256b A <- H[0]", model.Tcgen05Cp, {"wide": True, "cta_group": 1}),
    ("tcgen05.mma A, H[0], H[1]", model.Tcgen05Mma, {"accumulate": True, "kind": "f16"}),
    ("tcgen05.mma.cta_group::2.kind::f8f6f4 A, H[0], H[1], 0 idesc wide", model.Tcgen05Mma,
     {"accumulate": False, "cta_group": 2, "kind": "f8f6f4", "shape": "wide"}),
    ("tcgen05.commit.cta_group::2 m[0]@all", model.Tcgen05Commit, {"cta_group": 2}),
    ("tcgen05.wait::ld", model.Tcgen05Wait, {"stores": False}),
    ("tcgen05.wait::st.sync.aligned", model.Tcgen05Wait, {"stores": True}),
    ("tcgen05.fence::before_thread_sync", model.Tcgen05Fence, {"after": False}),
    ("tcgen05.fence::after_thread_sync", model.Tcgen05Fence, {"after": True}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "fields"), INSTRUCTIONS, ids=lambda row: str(row)[:40])
def test_instruction(text: str, kind: type[model.Instruction], fields: dict[str, object]):
    found = steps(f"ld r <- word\n{text}")[1].instruction
    assert type(found) is kind
    assert {name: getattr(found, name) for name in fields} == fields


LITMUS_ONLY: set[type[model.Instruction]] = {model.FenceProxy}
"""Fences for accesses that the language lacks: surface, texture, constant, other addresses."""


def test_every_instruction_of_the_model_and_of_the_language_is_in_the_table():
    in_kernels = {row[1] for row in INSTRUCTIONS}
    assert not in_kernels & LITMUS_ONLY
    assert in_kernels | LITMUS_ONLY == set(model.EVERY_INSTRUCTION)
    rows = [row[0] for row in INSTRUCTIONS]
    unused = [name for name in TABLE if not any(re.match(rf"{name}\b", row) for row in rows)]
    assert unused == []


# --- what an operand touches: text, and its (role, label, cta, columns, rows) ---------------------

ACCESSES: list[tuple[str, list[tuple[Role, str, int, tuple[int, int], tuple[int, int]]]]] = [
    ("tcgen05.ld r <- T[1]", [(Role.READ, "T[1]", 0, (72, 80), (32, 64))]),
    ("tcgen05.ld r <- T[1].columns(2, 4)", [(Role.READ, "T[1]", 0, (74, 78), (32, 64))]),
    ("tcgen05.ld r <- T[0].lanes(40, 8)", [(Role.READ, "T[0]", 0, (64, 72), (40, 48))]),
    ("tcgen05.st A", [(Role.WRITE, "A", 0, (80, 96), (32, 64))]),
    ("ld r <- H[1]", [(Role.READ, "H[1]", 0, (64, 128), (0, 1))]),
    ("ld r <- H[1]@1", [(Role.READ, "H[1]", 1, (64, 128), (0, 1))]),
    ("st H[0].part(warp % 4, 4)", [(Role.WRITE, "H[0]", 0, (16, 32), (0, 1))]),
    ("st H[0].bytes(8, 4)", [(Role.WRITE, "H[0]", 0, (8, 12), (0, 1))]),
    ("st word", [(Role.WRITE, "word", 0, (128, 132), (0, 1))]),
    ("st G[1]", [(Role.WRITE, "G[1]", -1, (256, 512), (0, 1))]),
    ("st.async H[1]@1 mbarrier m[1]@1 bytes 64", [(Role.WRITE, "H[1]", 1, (64, 128), (0, 1))]),
    (
        "wgmma.mma_async H[0], H[1]",
        [
            (Role.READ, "H[0]", 0, (0, 64), (0, 1)),
            (Role.READ, "H[1]", 0, (64, 128), (0, 1)),
        ],
    ),
    ("mbarrier.inval late", [(Role.FREE, "late", 0, (132, 140), (0, 1))]),
    ("mbarrier.arrive m[0]", []),
    ("tcgen05.dealloc T", [(Role.FREE, "T", 0, (64, 80), (0, 128))]),
    (
        "tcgen05.mma A, H[0], H[1], 0",
        [
            (Role.READ, "H[0]", 0, (0, 64), (0, 1)),
            (Role.READ, "H[1]", 0, (64, 128), (0, 1)),
            (Role.WRITE, "A", 0, (80, 96), (0, 128)),
        ],
    ),
    (
        "tcgen05.mma.cta_group::2 A, T[0], H[1]@1, 0",
        [
            (Role.READ, "T[0]", 0, (64, 72), (0, 128)),
            (Role.READ, "T[0]", 1, (64, 72), (0, 128)),
            (Role.READ, "H[1]", 1, (64, 128), (0, 1)),
            (Role.WRITE, "A", 0, (80, 96), (0, 128)),
            (Role.WRITE, "A", 1, (80, 96), (0, 128)),
        ],
    ),
]


@pytest.mark.parametrize(("text", "expected"), ACCESSES, ids=[row[0] for row in ACCESSES])
def test_accesses(text: str, expected: list[tuple[object, ...]]):
    found = steps(text, "1 warp at 5, cta 0")[0].instruction.accesses
    assert [
        (a.role, a.region.label, a.region.cta, a.region.columns, a.region.rows) for a in found
    ] == expected


def test_lanes_of_a_warp_have_their_own_part_of_a_generic_access():
    assert steps("ld r <- H[0]")[0].instruction.accesses[0].region.exclusive
    assert not steps("ld r <- H[0]", "1 thread, cta 0")[0].instruction.accesses[0].region.exclusive
    assert not steps("tcgen05.ld r <- T[0]")[0].instruction.accesses[0].region.exclusive


def test_multicast_signals_each_destination_for_its_own_bytes():
    text = "cp.async.bulk.tensor H[0]@all <- G[0] mbarrier m[0]@all bytes 64"
    program = agent(text)
    load = program.agents[0].steps[0].instruction
    barriers = [barrier for barrier in program.barriers if barrier.label == "m[0]"]
    assert load.signals == (
        Signal(barriers[0], bytes=64, accesses=(0, 2)),
        Signal(barriers[1], bytes=64, accesses=(1, 2)),
    )


def test_one_mbarrier_may_count_the_bytes_of_both_ctas():
    signal = steps("cp.async.bulk.tensor H[0] mbarrier m[0]@1 bytes 32")[0].instruction.signals[0]
    assert (signal.barrier.cta, signal.bytes, signal.accesses) == (1, 32, None)


def test_one_thread_alone_executes_no_wgmma():
    with pytest.raises(InputError, match="whole warps execute it"):
        agent("wgmma.mma_async H[0], H[1]", "1 thread, cta 0")


def test_an_asynchronous_store_counts_at_the_mbarrier_beside_its_bytes():
    (signal,) = steps("st.async H[0]@1 mbarrier m[0]@1 bytes 64")[0].instruction.signals
    assert (signal.barrier.label, signal.barrier.cta, signal.bytes) == ("m[0]", 1, 64)


# --- memory and agents ----------------------------------------------------------------------------


def test_arrays_follow_one_another_unless_placed():
    arrays = build(
        "kernel k(n = 2)\ncluster 2\ntmem a[n] columns 4, b columns 4 at 100, c lanes 32..64\n"
        "tmem d[3] columns 2 at each i: 10 * i + n\nshared s, u[n] bytes 8\nglobal g[n]\n"
        "agent t: 1 thread\n  bar.sync 0\n"
    ).arrays
    assert {name: [(r.cta, r.columns) for r in regions] for name, regions in arrays.items()} == {
        "a": [(0, (104, 108)), (0, (108, 112)), (1, (104, 108)), (1, (108, 112))],
        "b": [(0, (100, 104)), (1, (100, 104))],
        "c": [(0, (112, 113)), (1, (112, 113))],
        "d": [(c, (10 * i + 2, 10 * i + 4)) for c in (0, 1) for i in range(3)],
        "s": [(0, (0, 4)), (1, (0, 4))],
        "u": [(0, (4, 12)), (0, (12, 20)), (1, (4, 12)), (1, (12, 20))],
        "g": [(-1, (0, 4)), (-1, (4, 8))],
    }
    assert arrays["c"][0].rows == (32, 64)


def test_more_tensor_memory_than_there_is_is_noted():
    text = "kernel k(n = 2)\ntmem a[n] columns 256\nagent t: 1 thread\n  bar.sync 0\n"
    assert build(text).notes == []
    assert "768 columns" in build(text, n=3).notes[0]


WHO = {
    "4 warps, cta 0": [(0, w, 32, 32 * w) for w in range(4)],
    "2 warps at 6, cta 1": [(1, 6, 32, 192), (1, 7, 32, 224)],
    "warps 3..5": [(0, 3, 32, 96), (0, 4, 32, 128), (1, 3, 32, 96), (1, 4, 32, 128)],
    "1 thread at n, cta all": [(0, 4, 1, 128), (1, 4, 1, 128)],
    "34 threads, cta 0": [(0, i // 32, 1, i) for i in range(34)],
    "threads x in 0..2, y in 1..3, cta 0": [(0, 0, 1, i) for i in range(4)],
}


@pytest.mark.parametrize(("who", "expected"), WHO.items())
def test_agents(who: str, expected: list[tuple[int, int, int, int]]):
    found = agent("bar.sync 0", who).agents
    assert [(a.cta, a.warp, a.lanes, a.thread) for a in found] == expected


def test_warps_follow_the_agent_before():
    text = (
        "kernel k()\nagent a: 2 warps\n  bar.sync 0\nagent b: 1 thread\n  bar.sync 0\n"
        "agent c: warps 8..9\n  bar.sync 0\nagent d: 1 warp\n  bar.sync 0\n"
    )
    program = build(text)
    assert [(a.name, a.warp) for a in program.agents] == [
        ("a", 0), ("a", 1), ("b", 2), ("c", 8), ("d", 9),
    ]  # fmt: skip
    assert {s.instruction.threads for a in program.agents for s in a.steps} == {4 * 32 + 1}


def test_threads_of_a_warp_are_lined_up_by_their_place_in_the_code():
    body = """\
ld r <- word
for i in 0..2
  if (x + i) % 2 == 0
    st word <- r
  bar.warp.sync
use r"""
    program = agent(body, "threads x in 0..2, y in 0..2, cta 0")
    even, odd = program.agents[:2]
    assert [(s.position, s.instruction.mnemonic) for s in even.steps] == [
        (0, "ld"), (1, "st"), (2, "bar.warp.sync"), (4, "bar.warp.sync"), (5, "use"),
    ]  # fmt: skip
    assert [s.position for s in odd.steps] == [0, 2, 3, 4, 5]
    assert {s.instruction.mask for s in even.steps if s.position == 2} == {0xFFFFFFFF}
    assert {s.position for s in steps("use r\nld r <- word")} == {-1}


# --- statements -----------------------------------------------------------------------------------


def test_work_items_and_counters():
    body = """\
let t = 0
for item, n in [2, 1]
  for k in 0..n
    tile 10 * item + t
    bar.sync 0
    t = t + 1
for v in w
  bar.sync v"""
    found = steps(body)
    assert [s.tile for s in found] == [0, 1, 12, None, None]
    assert [s.instruction.id for s in found[3:]] == [1, 2]


def test_tile_labels_last_for_the_block_and_the_outer_loop_names_tiles():
    body = """\
bar.sync 0
for i in 3..5
  for j in 0..2
    bar.sync 1
tile 9
for i in 0..1
  bar.sync 2
  tile 7
  bar.sync 3
bar.sync 4"""
    assert [s.tile for s in steps(body)] == [None, 3, 3, 4, 4, 9, 7, 9]


def test_a_branch_is_a_vote_and_both_sides():
    body = """\
ld r <- word
for i in 0..2
  branch site on r
    bar.sync 1
    branch inner on r
      bar.sync 2
  else
    bar.sync 3"""
    found = steps(body)
    assert texts(found)[1:6] == [
        "vote r", "bar.sync 1, 32", "vote r", "bar.sync 2, 32", "bar.sync 3, 32",
    ]  # fmt: skip
    guards = [sorted((c.site, taken) for c, taken in s.guard) for s in found[1:6]]
    site, inner = ("site", True), ("inner", True)
    assert guards == [[], [site], [site], [inner, site], [("site", False)]]
    choices = {choice for s in agent(body, "2 warps, cta 0").steps() for choice, _ in s[1].guard}
    assert len(choices) == 2 * 2 * 2


def test_procedures_take_values_arrays_rings_and_registers():
    text = """\
kernel k(d = 2)
tmem d[d] columns 4
mbarrier full[d] count 32, empty[d] count 32
ring d: full full, empty empty, depth d
def read(array, register, i)
  consumer_wait array, i
  tcgen05.ld register <- array[i % d]
  again(array, i + d)
def again(ring, i)
  consumer_release ring, i
agent t: 1 warp
  for j in 3..4
    read(d, value, j)
  use value
"""
    assert texts(build(text).agents[0].steps) == [
        "mbarrier.try_wait.parity full[1], 1",
        "tcgen05.ld d[1]",
        "mbarrier.arrive empty[1]",
        "use value",
    ]


RING_WORDS = {
    "producer_acquire r, 0": "mbarrier.try_wait.parity m[0], 1",
    "producer_acquire r, 3": "mbarrier.try_wait.parity m[1], 0",
    "producer_commit r, 3": "mbarrier.arrive m[1]",
    "consumer_wait r, 3": "mbarrier.try_wait.parity m[1], 1",
    "consumer_release r, 4": "mbarrier.arrive m[0]",
}


@pytest.mark.parametrize(("word", "instruction"), RING_WORDS.items())
def test_ring_words(word: str, instruction: str):
    assert texts(steps(word)) == [instruction]


def test_ring_words_name_a_cta():
    assert steps("producer_commit r@1, 0")[0].instruction.barrier.cta == 1


# --- mistakes: body of an agent, position, what the message says ----------------------------------

FIRST = DECLARATIONS.count("\n") + 2
MISTAKES = {
    "tcgen05.ld r <- S[0]": (0, 19, "no array is named `S`"),
    "st Word": (0, 6, "did you mean `word`?"),
    "mbarrier.arrive mm[0]": (0, 19, "did you mean `m`?"),
    "mbarrier.arrive H[0]": (0, 19, "`H` is an array"),
    "ld r <- m[0]": (0, 11, "`m` is an mbarrier"),
    "tcgen05.lld r <- T[0]": (0, 3, "did you mean `tcgen05.ld`?"),
    "mbarrier.try_wait m[0], 1": (0, 3, "did you mean `mbarrier.try_wait.parity`?"),
    "cp.async.ca.shared.foo H[0]": (0, 3, "no modifier `.foo`"),
    "tile x": (0, 8, "no variable or parameter is named `x`"),
    "tile nn": (0, 8, "did you mean `n`?"),
    "use r": (0, 7, "nothing in this agent writes the register `r`"),
    "ld r <- H[2]": (0, 11, "index 2 is outside `H`, whose elements are 0 to 1"),
    "for i in 0..3\n  ld r <- H[i]": (1, 13, "index 2 is outside `H`, whose elements are 0 to 1"),
    "ld r <- H[0 - 1]": (0, 11, "index -1"),
    "ld r <- H": (0, 11, "2 elements; say which"),
    "mbarrier.arrive m[0], 0": (0, 25, "0 is out of range"),
    "mbarrier.init late, 0": (0, 23, "0 is out of range"),
    "mbarrier.init m[0], 1": (0, 3, "initialised already"),
    "mbarrier.try_wait.parity m[0]@1, 0": (0, 28, "only on an mbarrier of its own CTA"),
    "mbarrier.try_wait.parity m[0], 2": (0, 34, "0 to 1"),
    "mbarrier.arrive m[0]@all": (0, 19, "not @all"),
    "mbarrier.arrive.release m[0]": (0, 3, "a scope must follow .release"),
    "ld.gpu r <- G[0]": (0, 3, "a scope comes with its semantics"),
    "ld.shared r <- G[0]": (0, 3, "in global memory, not in shared"),
    "ld r <- T[0]": (0, 11, "`T` is in tensor memory"),
    "tcgen05.ld r <- T[0].lanes(64, 32)": (0, 19, "warp 0 reaches lanes 0..32"),
    "tcgen05.ld r <- T[0].columns(4, 8)": (0, 19, "8 from 4 is not inside 0..8"),
    "ld r <- H[0].columns(0, 1)": (0, 11, ".bytes"),
    "ld r <- H[0].part(0, 3)": (0, 11, "3 equal parts"),
    "ld r <- H[0]@2": (0, 11, "the cluster has 2"),
    "bar.sync 16": (0, 12, "0 to 15"),
    "bar.sync": (0, 3, "write `bar.sync id, threads`"),
    "fence.acq_rel": (0, 3, "a scope must follow"),
    "tcgen05.mma A, H[0]": (0, 3, "2 operands where 3 are needed"),
    "st.async H[0]": (0, 3, "mbarrier b bytes n"),
    "st.async G[0] mbarrier m[0] bytes 4": (0, 12, "needs shared memory"),
    "st.async H[0]@1 mbarrier m[0] bytes 4": (0, 3, "in the CTA of the destination"),
    "wgmma.mma_async H[0]": (0, 3, "wgmma.mma_async a, b"),
    "wgmma.mma_async T[0], H[0]": (0, 19, "needs shared memory"),
    "cp.async.bulk.tensor H[0]": (0, 24, "needs global memory"),
    "cp.async.bulk.tensor H[0] mbarrier m[0]": (0, 3, "mbarrier b bytes n"),
    "tile 1 / (n - 4)": (0, 8, "by zero"),
    "tile n % (n - 4)": (0, 8, "by zero"),
    "tile 1 << 1000000": (0, 8, "a shift by 1000000"),
    "tile 1 << (0 - 1)": (0, 8, "a shift by -1"),
    "tile 9999999 * 999999999 * 9": (0, 8, "beyond 1e+15"),
    "tile 12345678901234567890": (0, 8, "more than 15 digits"),
    "let q = 3\nfor i in 0..99\n  q = q * q": (2, 9, "beyond 1e+15"),
    "tile b": (0, 8, "an integer is needed here, and this is a word"),
    "tile w + 1": (0, 8, "this is a list"),
    "tile w[2]": (0, 8, "index 2 is outside this list, whose elements are 0 to 1"),
    "tile m[0]": (0, 8, "no variable or parameter is named `m`"),
    "tile max()": (0, 8, "takes a list or integers"),
    "tile foo(1)": (0, 8, "no function is named `foo`"),
    "q = 1": (0, 3, "declare it with `let`"),
    "n = 1": (0, 3, "`n` cannot be assigned"),
    "let q = 1\nlet q = 2": (1, 3, "declared twice"),
    "ld r <- word\nlet q = 1\nbranch s on r\n  q = 2": (3, 5, "would depend on data"),
    "foo(1)": (0, 3, "no procedure is named `foo`"),
    "threadgroup_barrier(all)": (0, 3, "mem_threadgroup"),
    "producer_acquire q, 1": (0, 20, "no ring is named `q`"),
    "let = 3": (0, 7, "unexpected '='; expected a name"),
    "bar.sync 0,": (0, 14, "unexpected end of the line; expected an expression"),
    "tile 3 4": (0, 10, "unexpected '4'"),
    "for i in 0..2": (0, 16, "expected an indented block"),
    "bar.sync 0\n  bar.sync 0": (1, 5, "unexpected indentation"),
    "for i in 0..2\n    bar.sync 0\n  bar.sync 0": (2, 5, "indented like no open block"),
    "bar.sync 0 §": (0, 14, "unexpected character '§'"),
    "if n <-1\n  bar.sync 0": (0, 8, "write `< -`"),
}


@pytest.mark.parametrize(("body", "expected"), MISTAKES.items())
def test_mistake_in_an_agent(body: str, expected: tuple[int, int, str]):
    line, column, message = expected
    with pytest.raises(InputError) as caught:
        agent(body)
    assert caught.value.where == f"test.kernel:{FIRST + line}:{column}"
    assert message in caught.value.message


T = "\nagent t: 1 warp\n  bar.sync 0\n"
DECLARATION_MISTAKES = {
    "": "the file is empty",
    "# nothing\n": "the file is empty",
    "kernel": "1:7: unexpected end of the line; expected a name",
    "kernel k(": "expected ')' or a name",
    "foo": "1:1: unexpected 'foo'; expected 'kernel'",
    "kernel k()\n": "no agent is declared",
    "kernel k(a = 1, a = 2)" + T: "1:17: the parameter `a` is declared twice",
    'kernel k(a = "x")' + T: "1:14: unexpected",
    "kernel k()\n\tcluster 2" + T: "2:1: a tab",
    "kernel k()\0" + T: "binary data",
    "kernel k()\ncluster 0" + T: "a cluster has 1 to 16 CTAs",
    "kernel k()\ntmem a[0]" + T: "2:8: the length of `a` is 0",
    "kernel k()\ntmem a columns 0" + T: "the size of `a` is 0",
    "kernel k()\ntmem a bytes 4" + T: "2:6: an array in tmem is not measured in bytes",
    "kernel k()\ntmem a\nshared a" + T: "3:8: the array `a` is declared twice",
    "kernel k()\ntmem a at 3 at 4" + T: "`at` is given twice",
    "kernel k()\nshared a lanes 0..3" + T: "only tensor memory has lanes",
    "kernel k()\ntmem a lanes 0..200" + T: "lanes 0..200",
    "kernel k()\nmbarrier m count 0" + T: "2:18: the count of `m` is 0",
    "kernel k()\nmbarrier m" + T: "expected '[', 'count' or 'uninitialized'",
    "kernel k()\nmbarrier m count 1\nring r: full m, empty x, depth 1" + T: "named `x`",
    "kernel k()\nmbarrier m count 1\nring r: full m, empty m, depth 2" + T: "has depth 2",
    'kernel k(a = 1)\nrequire a > 1, "more a"' + T: "2:1: more a",
    "kernel k()\ndef f()\n  f()\nagent t: 1 warp\n  f()\n": "3:3: `f` calls itself",
    "kernel k()\ndef f(a)\n  use a\nagent t: 1 warp\n  f()\n": "takes 1 arguments",
    "kernel k()\ndef f()\n  bar.sync 0\ndef f()\n  bar.sync 0" + T: "`f` is declared twice",
    "kernel k()" + T + "agent u: 1 warp at 0\n  bar.sync 0\n": "warp 0 of CTA 0 is `t` already",
    "kernel k()\nagent t: 1 warp, cta 1\n  bar.sync 0\n": "the cluster has 1",
    "kernel k()\nagent t: cta 0\n  bar.sync 0\n": "say once what `t` is",
    "kernel k()\nagent t: x in 0..4\n  bar.sync 0\n": "say once what `t` is",
    "kernel k()\nagent t: 4 warps, 1 thread\n  bar.sync 0\n": "say once what `t` is",
    "kernel k()\nagent t: 0 warps\n  bar.sync 0\n": "the number of warps is 0",
    "kernel k()\nlet a = b\nlet b = 1" + T: "no variable or parameter is named `b`",
}


@pytest.mark.parametrize(("text", "message"), DECLARATION_MISTAKES.items())
def test_mistake_in_a_declaration(text: str, message: str):
    with pytest.raises(InputError, match=re.escape(message)):
        build(text)


WRONG_VALUES = [
    ({"n": "4"}, "`n` takes an integer, not '4'"),
    ({"n": True}, "`n` takes an integer, not True"),
    ({"f": 1}, "`f` takes true or false, not 1"),
    ({"w": [1, "x"]}, "`w` takes integers"),
    ({"b": "hip"}, "`b` takes cuda or metal, not 'hip'"),
    ({"n": 10**30}, "beyond"),
    ({"m": 1}, "k has no parameter `m`"),
    ({"dd": 1}, "did you mean `d`?"),
]


@pytest.mark.parametrize(("given", "message"), WRONG_VALUES)
def test_wrong_parameter(given: dict[str, object], message: str):
    with pytest.raises(InputError, match=re.escape(message)):
        agent("bar.sync 0", **given)


def test_one_integer_is_a_list_of_one():
    assert agent("bar.sync 0", w=3).parameters["w"] == [3]
    assert agent("bar.sync 0", w=(1, 2)).parameters["w"] == [1, 2]


FILES = {
    "binary": (b"kernel k()\xff\xfe", "not a text file"),
    "empty": (b"", "the file is empty"),
}


@pytest.mark.parametrize(("content", "message"), FILES.values(), ids=FILES)
def test_unreadable_file(content: bytes, message: str, tmp_path: Path):
    path = tmp_path / "k.kernel"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load(path)


def test_missing_file_and_folder(tmp_path: Path):
    for path in (tmp_path, tmp_path / "no.kernel"):
        with pytest.raises(InputError, match="cannot be read"):
            load(path)


def test_windows_line_ends_comments_and_a_missing_last_newline():
    lines = ["# one", "", "kernel k(", "  a = 1, # two", "  b = 2)", "agent t: 1 warp", "  # x"]
    text = "\r\n".join([*lines, " bar.sync 0 # y"])
    assert texts(build(text).agents[0].steps) == ["bar.sync 0, 32"]


def test_lines_are_counted_as_editors_do(tmp_path: Path):
    path = tmp_path / "k.kernel"
    path.write_bytes(
        b"\xef\xbb\xbf# a\x0cb\x0b\r\nkernel k()\r\nagent t: 1 warp\r\n  bar.sync 0\r\n"
    )
    program = load(path)
    assert len(program.lines) == 4
    assert program.agents[0].steps[0].source == Source(4, 3, "bar.sync 0")


# --- bounds ---------------------------------------------------------------------------------------

ENDLESS = {
    "for i in 0..1000000000\n  bar.sync 0": "`for i in 0..1000000000` (line 9) has 1,000,000,000",
    "for i in 0..1000000000\n  let q = i": "600,000 statements",
    "for i in 0..100000\n  for j in 0..100000\n    if f\n      bar.sync 0": "100,000 iterations",
}


@pytest.mark.parametrize(("body", "message"), ENDLESS.items())
def test_a_loop_without_end_exceeds_the_budget(body: str, message: str):
    start = time.perf_counter()
    with pytest.raises(BudgetExceeded, match=re.escape(message)):
        agent(body)
    assert time.perf_counter() - start < 5


HUGE = {
    "tmem a[1000000000]" + T: "`a` has 1,000,000,000 elements",
    "mbarrier a[1000000000] count 1" + T: "`a` has 1,000,000,000 elements",
    "agent t: 1000000000 warps\n  bar.sync 0\n": "`t` has 1,000,000,000 warps",
    "agent t: threads x in 0..100000, y in 0..100000\n  bar.sync 0\n": "10,000,000,000 threads",
    "".join(f"def f{i}()\n  f{i + 1}()\n  f{i + 1}()\n" for i in range(40))
    + "def f40()\n  bar.sync 0\nagent t: 1 warp\n  f0()\n": "600,000 statements",
}


@pytest.mark.parametrize(("declarations", "message"), HUGE.items(), ids=HUGE.values())
def test_huge_declarations_exceed_the_budget(declarations: str, message: str):
    with pytest.raises(BudgetExceeded, match=re.escape(message)):
        build("kernel k()\n" + declarations)


DEEP = {
    "parentheses": "tile " + "(" * 3000 + "1" + ")" * 3000,
    "sum": "tile " + "+".join(["1"] * 5000),
    "signs": "tile " + "-" * 5000 + "1",
    "blocks": "\n".join("  " * depth + "if f" for depth in range(300))
    + "\n"
    + "  " * 300
    + "tile 1",
}


@pytest.mark.parametrize("body", DEEP.values(), ids=DEEP)
def test_deep_nesting_is_refused(body: str):
    with pytest.raises(InputError, match="nested too deeply"):
        agent(body)


# --- the builder and the documentation ------------------------------------------------------------


def test_the_builder_writes_the_same_kernel():
    kernel = KernelBuilder("record_ring", tiles=8, corr=2, fix=False)
    kernel("tmem rec[corr]", "mbarrier full[corr] count 128, empty[corr] count 128", "")
    with kernel.block("agent softmax: 4 warps, cta 0"), kernel.block("for t in 0..tiles"):
        kernel("mbarrier.try_wait.parity empty[t % corr], ((t / corr) & 1) ^ 1")
        kernel("tcgen05.st rec[t % corr]", "tcgen05.wait::st", "mbarrier.arrive full[t % corr]")
    assert kernel.text == SKETCH
    assert kernel.program(corr=3).agents == build(SKETCH, corr=3).agents


def test_the_builder_writes_defaults():
    kernel = KernelBuilder("k", n=-1, f=True, w=[1, 2], u=(3,), b="cuda | metal")
    assert kernel.text == "kernel k(n = -1, f = true, w = [1, 2], u = [3], b = cuda | metal)\n"


def fenced(language: str) -> list[str]:
    text = DOCS.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def kernel_name(text: str) -> str:
    return re.findall(r"kernel (\w+)", text)[0]


@pytest.mark.parametrize("text", fenced("kernel"), ids=kernel_name)
def test_examples_of_the_documentation(text: str):
    assert any(agent.steps for agent in build(text).agents)


def test_the_documented_builder_runs():
    (code,) = fenced("python")
    names: dict[str, object] = {}
    exec(code, names)
    assert isinstance(names["program"], Program)


def test_every_instruction_is_documented():
    text = DOCS.read_text(encoding="utf-8")
    missing = [name for name in TABLE if not re.search(rf"`{re.escape(name)}\b", text)]
    assert missing == []
