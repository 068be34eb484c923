"""Cycles as litmus tests: names, code and conditions, what is refused, and random families."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lastread.litmus.diy import family, generate
from lastread.litmus.diy.edges import mark, read_words, vocabulary
from lastread.litmus.diy.names import SHAPES
from lastread.litmus.language.parser import parse
from lastread.model.axiomatic.explore import explore
from lastread.model.program import InputError


def name_of(text: str) -> str:
    return text.split()[1]


def columns(text: str) -> list[list[str]]:
    """The instructions of each thread."""
    rows = [line for line in text.splitlines() if line.startswith(" ")][1:]
    cells = [[cell.strip() for cell in row.rstrip(" ;").split("|")] for row in rows]
    threads = max(map(len, cells))
    full = [row + [""] * (threads - len(row)) for row in cells]
    return [[cell for cell in column if cell] for column in zip(*full, strict=True)]


def condition(text: str) -> str:
    return text.splitlines()[-1]


def init(text: str) -> list[str]:
    return text[text.index("{\n") + 2 : text.index("\n}")].splitlines()


MP = """\
PTX MP+rel.gpu+acq.gpu
"PodWW Rel.gpu Rfe Acq.gpu PodRR Fre"
{
x = 0;
y = 0;
}
 P0@cta 0,cluster 0,gpu 0 | P1@cta 1,cluster 1,gpu 0 ;
 st.weak x, 1             | ld.acquire.gpu r1, y     ;
 st.release.gpu y, 1      | ld.weak r2, x            ;
exists (P1:r1 = 1 /\\ P1:r2 = 0)
"""


def test_a_whole_test() -> None:
    assert generate(["PodWW Rel.gpu Rfe Acq.gpu PodRR Fre"]) == MP


CLASSIC = [
    ("PodWW Rfe PodRR Fre", "MP",
     "st.weak x, 1; st.weak y, 1 | ld.weak r1, y; ld.weak r2, x",
     r"P1:r1 = 1 /\ P1:r2 = 0"),
    ("PodWR Fre PodWR Fre", "SB",
     "st.weak x, 1; ld.weak r1, y | st.weak y, 1; ld.weak r1, x",
     r"P0:r1 = 0 /\ P1:r1 = 0"),
    ("PodRW Rfe PodRW Rfe", "LB",
     "ld.weak r1, x; st.weak y, 1 | ld.weak r1, y; st.weak x, 1",
     r"P0:r1 = 1 /\ P1:r1 = 1"),
    ("PodWW Rfe PodRW Wse", "S",
     "st.weak x, 2; st.weak y, 1 | ld.weak r1, y; st.weak x, 1",
     r"P1:r1 = 1 /\ x = 2"),
    ("PodWW Wse PodWR Fre", "R",
     "st.weak x, 1; st.weak y, 1 | st.weak y, 2; ld.weak r1, x",
     r"P1:r1 = 0 /\ y = 2"),
    ("PodWW Wse PodWW Wse", "2+2W",
     "st.weak x, 2; st.weak y, 1 | st.weak y, 2; st.weak x, 1",
     r"x = 2 /\ y = 2"),
    ("Rfe PodRW Rfe PodRR Fre", "WRC",
     "st.weak x, 1 | ld.weak r1, x; st.weak y, 1 | ld.weak r1, y; ld.weak r2, x",
     r"P1:r1 = 1 /\ P2:r1 = 1 /\ P2:r2 = 0"),
    ("PodWW Rfe PodRW Rfe PodRR Fre", "ISA2",
     "st.weak x, 1; st.weak y, 1 | ld.weak r1, y; st.weak z, 1 | ld.weak r1, z; ld.weak r2, x",
     r"P1:r1 = 1 /\ P2:r1 = 1 /\ P2:r2 = 0"),
    ("Rfe PodRR Fre Rfe PodRR Fre", "IRIW",
     "st.weak x, 1 | ld.weak r1, x; ld.weak r2, y | st.weak y, 1 | ld.weak r1, y; ld.weak r2, x",
     r"P1:r1 = 1 /\ P1:r2 = 0 /\ P3:r1 = 1 /\ P3:r2 = 0"),
    ("Rfe PosRR Fre", "CoRR",
     "st.weak x, 1 | ld.weak r1, x; ld.weak r2, x",
     r"P1:r1 = 1 /\ P1:r2 = 0"),
    ("Rfe PosRW Wse", "CoRW2",
     "st.weak x, 2 | ld.weak r1, x; st.weak x, 1",
     r"P1:r1 = 2 /\ x = 2"),
    ("PosWR Fre Wse", "CoWR",
     "st.weak x, 2; ld.weak r1, x | st.weak x, 1",
     r"P0:r1 = 0 /\ x = 2"),
]  # fmt: skip


@pytest.mark.parametrize(("cycle", "name", "code", "wanted"), CLASSIC)
def test_classic_shapes(cycle: str, name: str, code: str, wanted: str) -> None:
    text = generate([cycle])
    assert (name_of(text), condition(text)) == (name, f"exists ({wanted})")
    assert columns(text) == [column.split("; ") for column in code.split(" | ")]


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_every_shape_is_a_cycle_with_its_name_from_any_start(shape: str) -> None:
    edges = SHAPES[shape].split()
    texts = {generate([*edges[start:], *edges[:start]]) for start in range(len(edges))}
    assert {name_of(text) for text in texts} == {shape}
    assert all(parse(text).name == shape for text in texts)


def test_the_title_of_a_test_is_its_cycle() -> None:
    text = generate(["Amo.add.AcqRel.gpu Rfe Alias DpAddrdR Fre Fence.sc.ctadWW Rfe"])
    title = text.splitlines()[1].strip('"')
    assert generate([title]) == text


def fenced(cycle: str, fence: str) -> list[str]:
    """The cycle of strong accesses with a fence in every program-order edge."""
    inside = re.sub(r"Po([sd])", rf"{fence}\1", cycle).split()
    return [word for edge in inside for word in ("Rlx.gpu", edge)]


SMALL = sorted(shape for shape in SHAPES if shape[0] not in "45678")


@pytest.mark.parametrize("shape", SMALL)
def test_the_outcome_of_a_cycle_is_what_sequential_consistency_forbids(shape: str) -> None:
    """Weak accesses allow every cycle (but the one within a thread), fence.sc none (§8.10.2)."""
    weak = explore(parse(generate([SHAPES[shape]])))
    strong = explore(parse(generate(fenced(SHAPES[shape], "Fence.sc.gpu"))))
    assert weak.observation == ("Never" if shape == "CoWR" else "Sometimes")
    assert strong.observation == "Never"
    assert strong.states


NAMES = [
    ("Rlx.gpu PodWW Rlx.gpu Rfe Rlx.gpu PodRR Rlx.gpu Fre", "MP+rlx.gpu+rlx.gpu"),
    ("Fence.sc.gpudWR Fre Fence.sc.ctadWR Fre", "SB+fence.sc.gpu+fence.sc.cta"),
    ("DpDatadW Rfe DpCtrldW Rfe", "LB+data+ctrl"),
    ("PodWW Rfe Acq.sys DpAddrdR Fre", "MP+po+addr-acq.sys"),
    ("PodWR Volatile Fre PodWR Fre", "SB+weak-volatile+po"),
    ("PodWW Rfe PosRR PodRR Fre", "MP+po+pos-po"),
    ("Fence.acq_rel.gpu+Fence.proxy.asyncdWW Rfe PodRR Fre",
     "MP+fence.acq_rel.gpu-fence.proxy.async+po"),
    ("MbarsWR Fre", "Mbar.release.acquire.ctasWR+Fre"),
]  # fmt: skip


@pytest.mark.parametrize(("cycle", "name"), NAMES)
def test_names(cycle: str, name: str) -> None:
    assert name_of(generate([cycle])) == name


def test_a_name_and_a_placement_that_are_given() -> None:
    assert name_of(generate(["PodWW Rfe PodRR Fre"], "mine")) == "mine"
    text = generate(["Rfe PodRW Rfe PodRR Fre"], placement="cta+sys")
    assert name_of(text) == "WRC@cta+sys"
    assert (
        "P0@cta 0,cluster 0,gpu 0 | P1@cta 0,cluster 0,gpu 0 | P2@cta 1,cluster 1,gpu 1"
        in " ".join(text.split())
    )


# --- what instructions need ----------------------------------------------------------------------


def test_dependencies_are_false_ones() -> None:
    text = generate(["DpDatadW Rfe DpCtrldW Rfe"])
    assert columns(text) == [
        ["ld.weak r1, x", "xor t0_0, r1, r1", "add t0_0, t0_0, 1", "st.weak y, t0_0"],
        ["ld.weak r1, y", "bne r1, 1, LC10", "LC10:", "st.weak x, 1"],
    ]


def test_an_atomic_is_a_read_and_a_write_of_the_cycle() -> None:
    text = generate(["PodWW Rel.gpu Rfe Amo.add.Rlx.gpu Rfe Acq.gpu PodRR Fre"])
    assert columns(text)[1] == ["atom.relaxed.gpu.add r1, y, 1"]
    assert condition(text) == "exists (P1:r1 = 1 /\\ P2:r1 = 2 /\\ P2:r2 = 0)"


def test_a_compare_and_swap_expects_the_value_before_it() -> None:
    assert "atom.acq_rel.gpu.cas r1, y, 1, 2" in generate(
        ["PodWW Coe Amo.cas.AcqRel.gpu PodWR Fre"]
    )


def test_tensor_memory_handed_over_for_overwriting() -> None:
    """P4a of §9.7.18.6.4: load, wait, fence, relaxed arrive; wait, fence, overwrite."""
    text = generate(["Tcgen05 Wait::ld+Before+Mbar.relaxed.relaxed.cta+AftersRW Tcgen05 Rfe"])
    assert init(text) == ["tmem x;", "mbarrier b0 count 1;"]
    assert columns(text) == [
        ["tcgen05.ld r1, x", "tcgen05.wait::ld", "tcgen05.fence::before_thread_sync",
         "mbarrier.arrive.relaxed.cta b0"],
        ["mbarrier.try_wait.parity.relaxed.cta b0, 0", "tcgen05.fence::after_thread_sync",
         "tcgen05.st x, 1"],
    ]  # fmt: skip
    assert condition(text) == "exists (P0:r1 = 1)"


def test_an_mma_is_committed_to_the_next_thread() -> None:
    text = generate(["Mma Commite.relaxed.cluster+AftersWR Tcgen05 Fre"])
    assert columns(text)[0] == ["tcgen05.mma x, a0, one0, 0", "tcgen05.commit b0"]


def test_a_tma_load_completes_where_its_waiter_is() -> None:
    text = generate(["Tma Tmae.acquire.clustersWR Fre"])
    assert init(text) == ["shared x @ cta 1;", "mbarrier b0 @ cta 1 count 1;", "g0 = 1;"]
    assert columns(text)[0] == ["mbarrier.arrive.expect_tx b0, 4", "cp.async.bulk x, g0, b0"]


def test_a_read_by_a_copy_is_seen_where_it_goes() -> None:
    text = generate(["PodWW Rfe Fence.proxy.asyncdRR Tma.store Fre"])
    assert columns(text)[1][-1] == "cp.async.bulk g0, x"
    assert condition(text) == "exists (P1:r1 = 1 /\\ g0 = 0)"


def test_barriers_of_two_threads() -> None:
    text = generate(["BarSyncsWR Fre"])
    assert columns(text) == [["st.weak x, 1", "bar.sync 0, 2"], ["bar.sync 0, 2", "ld.weak r1, x"]]
    assert "barrier.cluster.arrive.release" in generate(["ClusterSyncsWR Fre"])


def test_a_surface_is_a_view() -> None:
    text = generate(["Surf Fence.proxy.surfacesWR Fre Surf Coe"])
    assert init(text) == ["x = 0;", "x_surface @ surface aliases x;"]
    assert columns(text)[0][0] == "sust.weak x_surface, 2"


# --- what is refused -----------------------------------------------------------------------------

BAD = [
    ("", "no edges"),
    ("PodWX Rfe", "PodWX is no edge and no annotation; did you mean PodWW?"),
    ("PosWR Fri", "no external edge"),
    ("PodWW PosWR PodRR Fre", "Fre is the only external edge"),
    ("PodWW Rfe PosRR Fre", "PodWW is the only edge to another location"),
    ("PodWW Fre PodWR Fre", "PodWW ends in a write, but Fre starts from a read"),
    ("PodWR Volatile Rfe PodRW Fre", "PodWR ends in a read, but Rfe starts from a write"),
    ("MbarsWR MbarsRW", "no communication between threads"),
    ("Rfe Fre", "the communication edges contradict each other"),
    ("Coe Coe", "the communication edges contradict each other"),
    ("Acq.gpu PodWW Rfe PodRR Fre", "a store does not acquire; Rel or Rlx would be legal"),
    ("PodWW Rfe Rel.gpu PodRR Fre", "a load does not release; Acq or Rlx would be legal"),
    ("Const PodWW Rfe PodRR Fre", "nothing writes through the constant proxy"),
    ("PodWW Rfe Red.add PodRR Fre", "it gives no value back"),
    ("Red.cas PodWW Rfe PodRR Fre", "red has no cas"),
    ("PodWW Rfe PodRR Tcgen05 Fre", "x is tensor memory: Weak cannot access it"),
    ("Tma PodWW Rfe PodRR Surf Fre", "x must be shared memory for Tma and global for Surf"),
    ("PodWW Rfe Tma DpAddrdR Fre", "Tma leaves no register to depend on"),
    ("PodWW Rfe DpAddrdR Surf Fre", "Surf has no operand for it"),
    ("Tmae.acquire.ctasWR Fre", "must follow an event that is annotated Tma"),
    ("Mbar+BarSyncsWR Fre", "an edge goes to the next thread once"),
    ("Rlx.gpu Rel.gpu PodWW Rfe PodRR Fre", "the event has an annotation"),
    ("Rlx.gpu PodWW Rfe PodRR Fre Rlx.gpu", "the cycle closes there"),
]


@pytest.mark.parametrize(("cycle", "message"), BAD)
def test_what_is_no_cycle(cycle: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        generate([cycle])


@pytest.mark.parametrize(
    ("cycle", "placement", "message"),
    [
        ("PodWW Rfe PodRR Fre", "near", "placement near is none of"),
        ("PodWW Rfe PodRR Fre", "cta+cta", "placement has 2 words for 2 threads"),
        ("BarSyncsWR Fre", "gpu", "BarSync joins threads of one cta"),
        ("ClusterSyncsWR Fre Coe", "cluster", "it has more than two"),
        ("Tcgen05 MbarsWR Tcgen05 Fre", "cluster", "is used by two CTAs"),
        ("Tma Tmae.acquire.clustersWR Fre", "gpu", "is used by two clusters"),
    ],
)
def test_placements_that_do_not_work(cycle: str, placement: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate([cycle], placement=placement)


@pytest.mark.parametrize("name", ["two words", 'a"b', "a{b", ""])
def test_a_name_is_one_word(name: str) -> None:
    with pytest.raises(InputError, match="no name for a test"):
        generate(["PodWW Rfe PodRR Fre"], name=name)


def test_every_word_of_the_vocabulary_is_read() -> None:
    for word in vocabulary():
        edges, _ = read_words([word])
        assert edges or mark(word)


# --- families --------------------------------------------------------------------------------


def test_a_family_is_the_same_for_the_same_seed() -> None:
    assert list(family(3, 25)) == list(family(3, 25))
    assert list(family(3, 5)) != list(family(4, 5))


def test_a_longer_family_starts_with_the_shorter() -> None:
    assert list(family(3, 12))[:5] == list(family(3, 5))


def test_families_parse_and_keep_to_their_size() -> None:
    made = list(family(11, 150))
    tests = [parse(text) for _, text in made]
    assert [test.name for test in tests] == [name for name, _ in made]
    assert {len(test.threads) for test in tests} == {2, 3, 4}
    assert {test.quantifier for test in tests} == {"exists"}


def test_families_have_everything() -> None:
    text = "\n".join(text for _, text in family(1, 400))
    for word in (
        "fence.sc", "bar.sync", "barrier.cluster", "mbarrier.arrive", "test_wait", "cp.async.bulk ",
        "tcgen05.mma", "tcgen05.cp", "tcgen05.commit", "wait::ld", "sust", "_alias", "cold", "tld",
        "fence.proxy.surface", "atom.", "red.", "xor", "bne", "cp.async.bulk.wait_group",
        "mbarrier.init", "fence.proxy.async", "@warp", "gpu 1",
    ):  # fmt: skip
        assert word in text, word


@pytest.mark.parametrize("size", [(2, 2), (2, 4), (3, 3), (4, 6)])
def test_small_families(size: tuple[int, int]) -> None:
    threads, events = size
    tests = [parse(text) for _, text in family(0, 30, threads, events)]
    assert max(len(test.threads) for test in tests) <= threads


def test_a_family_has_at_least_two_threads() -> None:
    with pytest.raises(InputError, match="at least 2 threads"):
        list(family(0, 1, threads=1))


# --- the reference -------------------------------------------------------------------------------


def test_the_examples_of_the_reference_are_tests() -> None:
    page = (Path(__file__).parents[2] / "docs/diy.md").read_text(encoding="utf-8")
    assert MP in page
    examples = re.findall(r"^lastread diy (\w.*)$", page, re.MULTILINE)
    assert len(examples) == 5
    assert all(parse(generate([example])) for example in examples)
