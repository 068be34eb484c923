"""The sentence, the swimlanes and the report, from hand-made results."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from lastread.litmus.report import as_text, console, listing, report
from lastread.litmus.sentences import headline, sentence
from lastread.litmus.storyline import SHORT, hand_offs, moments
from lastread.litmus.swimlanes import lanes_of, swimlanes
from lastread.model.readings import REGISTER_USE
from lastread.model.verdict import Finding, Place, Proof, ProofStep, Result, ScheduleRow

LOAD = Place("correction", 0, 4, "tcgen05.ld", 1, 41, "tcgen05.ld corr[1]")
STORE = Place("softmax", 0, 0, "tcgen05.st", 3, 27, "tcgen05.st corr[1]")
RELEASE = Place("correction", 0, 4, "mbarrier.arrive", 1, 42, "mbarrier.arrive empty[1]")
ACQUIRE = Place(
    "softmax", 0, 0, "mbarrier.try_wait.parity", 3, 25, "mbarrier.try_wait.parity empty[1], 0"
)
SCHEDULE = (
    ScheduleRow(LOAD, "issue"),
    ScheduleRow(RELEASE, "issue"),
    ScheduleRow(ACQUIRE, "pass"),
    ScheduleRow(STORE, "access", "second"),
    ScheduleRow(LOAD, "access", "first"),
)
RACE = Finding(
    kind="race",
    hazard="overwrite-before-last-read",
    severity="error",
    location="corr[1]",
    count=6,
    first=LOAD,
    second=STORE,
    schedule=SCHEDULE,
    missing="no wait::ld between the load and mbarrier.arrive empty[1]",
    remedy="tcgen05.wait::ld after line 41, before the release",
)
PROOF = Proof(
    "corr[1]",
    "overwrite-before-last-read",
    LOAD,
    STORE,
    (
        ProofStep("register-use", "assumed", "tcgen05.ld corr[1]", "vote", 44),
        ProofStep("mbarrier", "§9.7.15.16", "mbarrier.arrive empty[1]", "try_wait empty[1]", 25),
    ),
    (REGISTER_USE,),
)
PTX = Result(
    "record_ring", {"corr": 2, "work": [8], "fix": False}, "ptx", "9.4", "race", findings=(RACE,)
)
HARDWARE = replace(
    PTX,
    reading="hardware",
    verdict="ordered",
    findings=(),
    proofs=(PROOF,),
    assumptions=(REGISTER_USE,),
)


def shown(results: list[Result], deciding: Result, width: int = 100) -> str:
    terminal = console(io.StringIO())
    terminal.width = width
    return as_text(report(results, deciding, "ring.kernel", [], width), terminal)


# --- sentences ------------------------------------------------------------------------------------

READ = Place("mma", 0, 8, "tcgen05.mma", 3, 60)
THREAD = Place("thread", 0, 0, "ld", None, 5)
FREE = Place("mma", 0, 8, "tcgen05.dealloc", None, 70)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (
            {},
            "softmax may refill corr[1] for tile 3 while correction's tcgen05.ld of tile 1 "
            "still reads it",
        ),
        (
            {"reason": "value is dead"},
            "softmax may refill corr[1] for tile 3 while correction's tcgen05.ld of tile 1 "
            "still reads it (value is dead)",
        ),
        (
            {"second": replace(STORE, tile=None)},
            "softmax may overwrite corr[1] while correction's tcgen05.ld of tile 1 still reads it",
        ),
        (
            {"second": replace(STORE, cta=1)},
            "CTA 1's softmax may refill corr[1] for tile 3 while CTA 0's correction's "
            "tcgen05.ld of tile 1 still reads it",
        ),
        (
            {"second": replace(STORE, agent="correction", tile=None)},
            "correction warp 0 may overwrite corr[1] while correction warp 4's tcgen05.ld of "
            "tile 1 still reads it",
        ),
        (
            {"first": THREAD, "second": replace(THREAD, instruction="st")},
            "another thread may overwrite corr[1] while a thread's ld still reads it",
        ),
        (
            {"first": THREAD, "second": replace(THREAD, warp=1, instruction="st")},
            "a thread of warp 1 may overwrite corr[1] while a thread of warp 0's ld still reads it",
        ),
        (
            {"hazard": "read-before-write", "first": STORE, "second": READ},
            "mma's tcgen05.mma of tile 3 may read corr[1] before softmax's tcgen05.st of tile 3 "
            "has written it",
        ),
        (
            {"hazard": "write-write", "first": READ, "second": STORE},
            "mma's tcgen05.mma of tile 3 and softmax's tcgen05.st of tile 3 may write corr[1] "
            "in either order",
        ),
        (
            {"hazard": "use-after-free", "second": FREE},
            "mma's tcgen05.dealloc may end the life of corr[1] while correction's tcgen05.ld of "
            "tile 1 still uses it",
        ),
        (
            {"kind": "proxy"},
            "softmax's tcgen05.st of tile 3 follows correction's tcgen05.ld of tile 1 at corr[1], "
            "but through another proxy, and no proxy fence stands between them",
        ),
        (
            {"kind": "deadlock", "hazard": "", "location": "empty[1]", "first": ACQUIRE},
            "softmax waits for ever at mbarrier.try_wait.parity empty[1] of tile 3",
        ),
        (
            {"kind": "lap", "hazard": "", "location": "empty[1]", "first": ACQUIRE},
            "softmax's mbarrier.try_wait.parity empty[1] of tile 3 may miss its phase: the "
            "barrier can be a lap ahead",
        ),
        (
            {"kind": "count", "hazard": "", "location": "empty[1]", "first": RELEASE},
            "empty[1] gets a wrong number of arrivals or bytes: correction's mbarrier.arrive of "
            "tile 1",
        ),
        (
            {"kind": "lifetime", "first": replace(FREE, instruction="tcgen05.alloc")},
            "softmax's tcgen05.st of tile 3 may use corr[1] before mma's tcgen05.alloc begins its "
            "life",
        ),
        (
            {"kind": "lifetime", "hazard": "", "second": None},
            "correction's tcgen05.ld of tile 1 uses corr[1] outside its lifetime",
        ),
        (
            {"kind": "divergence", "hazard": ""},
            "only part of a warp of correction executes tcgen05.ld of tile 1, which needs the "
            "whole warp",
        ),
        (
            {"kind": "something new", "hazard": ""},
            "something new at corr[1]: correction's tcgen05.ld of tile 1",
        ),
    ],
)
def test_sentence(changes: dict[str, object], wanted: str) -> None:
    assert sentence(replace(RACE, **changes)) == wanted  # type: ignore[arg-type]


def test_headline_joins_equal_verdicts() -> None:
    strict = replace(PTX, reading="strict")
    assert headline([strict, PTX, HARDWARE]) == (
        "race by a strict reading and by the PTX text, ordered on hardware"
    )
    assert headline([PTX, strict]) == "race in every reading"
    assert headline([HARDWARE]) == "ordered on hardware"


# --- swimlanes ------------------------------------------------------------------------------------


def test_the_missing_edge_stands_between_the_two_marked_accesses() -> None:
    lines = [line.text for line in swimlanes(RACE, 100)]
    second = next(n for n, line in enumerate(lines) if "② tcgen05.st corr[1] takes" in line)
    first = next(n for n, line in enumerate(lines) if "① tcgen05.ld corr[1] takes" in line)
    assert second < first
    assert "✗ no order ① → ②: no wait::ld" in "".join(lines[second + 1 : first])


def test_steps_are_numbered_in_time_order_with_their_tile() -> None:
    lines = [line.text for line in swimlanes(RACE, 100)]
    numbered = [line.split()[:2] for line in lines if line.split()[0].isdigit()]
    assert numbered == [["1", "1"], ["2", "1"], ["3", "3"], ["4", "3"], ["5", "1"]]


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("agents", [1, 3, 9])
def test_swimlanes_fit_the_width(width: int, agents: int) -> None:
    others = tuple(
        ScheduleRow(replace(ACQUIRE, agent=f"a_rather_long_agent_name_{n}"), "pass")
        for n in range(agents)
    )
    finding = replace(RACE, schedule=others + SCHEDULE)
    assert max(len(line.text) for line in swimlanes(finding, width)) <= width


def test_lanes_at_fault_come_first_and_the_rest_share_a_lane() -> None:
    others = tuple(ScheduleRow(replace(ACQUIRE, agent=f"other{n}"), "pass") for n in range(5))
    lanes, by_warp = lanes_of(others + SCHEDULE)
    assert not by_warp
    assert [lane[0] for lane in lanes] == ["softmax", "correction", "other0", "others"]


def test_two_warps_of_one_agent_get_a_lane_each() -> None:
    other = replace(LOAD, warp=5, instruction="tcgen05.st", text="tcgen05.st corr[1]")
    schedule = (ScheduleRow(other, "access", "second"), ScheduleRow(LOAD, "access", "first"))
    lines = swimlanes(replace(RACE, second=other, schedule=schedule), 100)
    assert "correction, CTA 0 warp 5" in lines[0].text
    assert "correction, CTA 0 warp 4" in lines[0].text


def test_equal_steps_of_neighbouring_warps_are_one_moment() -> None:
    warps = tuple(ScheduleRow(replace(RELEASE, warp=warp), "issue") for warp in (4, 5, 6, 7))
    story = moments((*warps, *SCHEDULE))
    assert [moment.steps for moment in story] == [4, 1, 1, 1, 1, 1]
    text = "\n".join(line.text for line in swimlanes(replace(RACE, schedule=warps + SCHEDULE), 100))
    assert "mbarrier.arrive empty[1] [warps 4-7]" in text
    assert "mbarrier.arrive empty[1] [warp 4]" in text


def test_a_long_schedule_is_collapsed_around_the_fault() -> None:
    far = tuple(ScheduleRow(replace(ACQUIRE, agent="load", tile=n), "pass") for n in range(500))
    lines = [line.text for line in swimlanes(replace(RACE, schedule=far + SCHEDULE + far), 100)]
    assert sum("steps …" in line for line in lines) == 2
    assert len(lines) < 2 * SHORT
    assert any("tcgen05.ld corr[1] is" in line for line in lines)
    assert any("② tcgen05.st" in line for line in lines)


def test_the_hand_offs_between_the_accesses_are_shown_however_far_apart() -> None:
    far = tuple(ScheduleRow(replace(ACQUIRE, agent="load", tile=n), "issue") for n in range(50))
    issue, release, acquire, *accesses = SCHEDULE
    schedule = (issue, *far, release, *far, acquire, *far, *accesses)
    story = moments(schedule)
    assert hand_offs(story, 0, len(story) - 2) == [102, 51]
    text = "\n".join(line.text for line in swimlanes(replace(RACE, schedule=schedule), 100))
    assert "mbarrier.arrive empty[1]" in text
    assert "passes" in text
    assert text.count("50 steps") == 3


def test_hand_offs_lead_through_a_third_agent() -> None:
    other_wait = replace(ACQUIRE, agent="mma")
    other_commit = Place("mma", 0, 8, "tcgen05.commit", 1, 60, "tcgen05.commit done[0]")
    last_wait = replace(ACQUIRE, text="mbarrier.try_wait.parity done[0], 0")
    issue, release, _, *accesses = SCHEDULE
    story = moments(
        (
            issue,
            release,
            ScheduleRow(other_wait, "pass"),
            ScheduleRow(other_commit, "complete"),
            ScheduleRow(last_wait, "pass"),
            *accesses,
        )
    )
    assert hand_offs(story, 0, 5) == [4, 3, 2, 1]


def test_no_schedule_draws_nothing() -> None:
    assert swimlanes(replace(RACE, schedule=()), 100) == []


# --- the report -----------------------------------------------------------------------------------


def test_the_report_answers_first_and_says_what_would_order_it() -> None:
    text = shown([PTX, HARDWARE], PTX)
    assert text.startswith("record_ring: race by the PTX text, ordered on hardware\n")
    wanted = [
        "corr=2  work=8  fix=false",
        "▸ ptx",
        "race (ptx): softmax may refill corr[1] for tile 3",
        "ring.kernel:41",
        "6 instances by location and tile",
        "✗ no order ① → ②",
        "What would order it: tcgen05.wait::ld after line 41",
        "ordered by `hardware`, taking register-use-completes-load",
        "Why it is ordered (hardware)",
        "→ register-use",
        "§9.7.15.16",
        "PTX ISA 9.4, reading `ptx`",
    ]
    places = [text.find(part) for part in wanted]
    assert -1 not in places
    assert places == sorted(places)


def test_a_proof_names_its_rules_and_sections() -> None:
    text = shown([HARDWARE], HARDWARE)
    assert "record_ring: ordered on hardware" in text
    assert "→ register-use" in text
    assert "§9.7.15.16" in text
    assert "assumed, register-use-completes-load: an instruction that needs" in text


def test_program_order_is_one_line_of_a_proof() -> None:
    po = ProofStep("po", "§8.9.5", "a", "b")
    long = replace(PROOF, steps=(po, po, replace(po, after="the last"), *PROOF.steps, po))
    result = replace(HARDWARE, proofs=(long,))
    text = shown([result], result)
    assert "→ po (3 steps)" in text
    assert text.count("→ po") == 2
    assert "the last" in text


def test_bounds_notes_and_dropped_findings_are_always_printed() -> None:
    cut = replace(
        PTX, verdict="unknown", bounds={"tiles": 3}, notes=("S is a buffer",), dropped_findings=2
    )
    text = shown([cut], cut)
    assert "bound: tiles = 3" in text
    assert "S is a buffer" in text
    assert "2 more findings were dropped (--max-findings)" in text


def test_notes_come_after_errors_and_are_brief() -> None:
    note = replace(RACE, severity="note", reason="value is dead", location="corr[0]")
    both = replace(PTX, findings=(note, RACE))
    text = shown([both], both)
    assert text.index("race (ptx): softmax may refill corr[1]") < text.index("Notes (they do not")
    assert "softmax may refill corr[0] for tile 3" in text
    assert text.count("takes effect") == 2


def test_a_deadlock_shows_its_cycle() -> None:
    stuck = replace(
        RACE, kind="deadlock", hazard="", second=None, schedule=(), cycle=("a waits for b",)
    )
    text = shown([replace(PTX, findings=(stuck,))], replace(PTX, findings=(stuck,)))
    assert "- a waits for b" in text


def test_kernel_text_is_never_taken_for_markup() -> None:
    odd = replace(RACE, location="[bold]x[/bold]")
    assert "[bold]x[/bold]" in shown([replace(PTX, findings=(odd,))], replace(PTX, findings=(odd,)))


@pytest.mark.parametrize("width", [80, 100])
def test_the_report_fits_its_width_and_holds_no_escapes_when_piped(width: int) -> None:
    text = shown([PTX, HARDWARE], PTX, width)
    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


def test_listing_shows_name_purpose_and_defaults() -> None:
    kernels = [("ring", "A ring.", {"corr": 2, "work": [8, 1]})]
    text = as_text(listing(kernels), console(io.StringIO()))
    assert text.splitlines() == ["ring", "    A ring.", "    corr=2  work=8,1"]
