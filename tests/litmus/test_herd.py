"""An outcome as text: herd7's block to the letter, then our lines, each only when it applies."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from lastread.litmus.herd import chain, herd, quantified
from lastread.litmus.herd import test_hash as hash_of
from lastread.model.axiomatic.code import (
    TRUE,
    Act,
    AddressOf,
    Branch,
    Compare,
    Condition,
    Connective,
    Final,
    Location,
    Move,
    Place,
    RegisterAt,
    Test,
    Thread,
)
from lastread.model.axiomatic.outcome import EdgeView, EventView, Outcome, Picture, Race

HERE = Place(1, 1)
R0, R1, X = RegisterAt("P0", "r0"), RegisterAt("P1", "r1"), Final("x")
BOTH = Connective("and", (Compare("eq", R0, 0), Compare("eq", R1, 0)))


def act(text: str) -> Act:
    return Act(HERE, text, lambda arguments: None)


def store_buffering(**changes: Any) -> Test:
    threads = (
        Thread("P0", (act("st.weak x, 1"), act("ld.weak r0, y"))),
        Thread("P1", (act("st.weak y, 1"), act("ld.weak r1, x")), cta=1),
    )
    locations = (Location("x", "x", "x"), Location("y", "y", "y"))
    return replace(Test("SB", threads, locations, "exists", BOTH), **changes)


def outcome(test: Test | None = None, **changes: Any) -> Outcome:
    states = [{R0: a, R1: b} for a in (0, 1) for b in (0, 1)]
    found = Outcome(test or store_buffering(), "9.4", "ptx", "enumerate", states=states)
    found.positive, found.negative, found.executions, found.candidates = 1, 3, 4, 16
    return replace(found, seconds=0.0123, **changes)


EVENTS = (
    EventView("i", -1, 0, "", "W[x]=0"),
    EventView("a", 0, 0, "st.weak x, 1", "W[x]=1", 5),
    EventView("b", 0, 1, "ld.weak  r0, y", "R[y]=0", 6),
    EventView("c", 1, 1, "ld.weak r1, x", "R[x]=0", 16),
)
EDGES = (
    EdgeView("po", "a", "b"),
    EdgeView("rf", "i", "c"),
    EdgeView("fr", "c", "a"),
)
WITNESS = Picture(EVENTS, EDGES, (("P0:r0", 0), ("P1:r1", 0)))


# --- the block ------------------------------------------------------------------------------------


def test_the_block_is_herds() -> None:
    assert herd(outcome()) == (
        "Test SB Allowed\n"
        "States 4\n"
        "P0:r0=0; P1:r1=0;\n"
        "P0:r0=0; P1:r1=1;\n"
        "P0:r0=1; P1:r1=0;\n"
        "P0:r0=1; P1:r1=1;\n"
        "Ok\n"
        "Witnesses\n"
        "Positive: 1 Negative: 3\n"
        "Condition exists (P0:r0=0 /\\ P1:r1=0)\n"
        "Observation SB Sometimes 1 3\n"
        "Time SB 0.01\n"
        f"Hash={hash_of(store_buffering())}\n"
        "Reading ptx, ISA 9.4, engine enumerate, 4 executions of 16 candidates\n"
    )


@pytest.mark.parametrize(
    ("quantifier", "positive", "negative", "complete", "kind", "answer", "observation"),
    [
        ("exists", 1, 3, True, "Allowed", "Ok", "Sometimes"),
        ("exists", 0, 4, True, "Allowed", "No", "Never"),
        ("exists", 1, 3, False, "Allowed", "Ok", "Sometimes"),
        ("exists", 0, 4, False, "Allowed", "Undecided", "Never"),
        ("~exists", 0, 4, True, "Forbidden", "Ok", "Never"),
        ("~exists", 0, 4, False, "Forbidden", "Undecided", "Never"),
        ("~exists", 4, 0, False, "Forbidden", "No", "Always"),
        ("forall", 4, 0, True, "Required", "Ok", "Always"),
        ("forall", 4, 0, False, "Required", "Undecided", "Always"),
        ("forall", 3, 1, False, "Required", "No", "Sometimes"),
    ],
)
def test_kind_answer_and_observation(
    quantifier: str,
    positive: int,
    negative: int,
    complete: bool,
    kind: str,
    answer: str,
    observation: str,
) -> None:
    test = store_buffering(quantifier=quantifier)
    counts = {"positive": positive, "negative": negative, "complete": complete}
    lines = herd(outcome(test, **counts)).splitlines()
    assert lines[0] == f"Test SB {kind}"
    assert lines[6] == answer
    assert lines[8] == f"Positive: {positive} Negative: {negative}"
    assert lines[10] == f"Observation SB {observation} {positive} {negative}"


def test_no_state_and_an_empty_state() -> None:
    assert "States 0\nOk\n" in herd(outcome(states=[]))
    assert "States 1\n\nOk\n" in herd(outcome(states=[{}]))


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (TRUE, "exists (true)"),
        (Compare("ne", X, 2), "exists (x!=2)"),
        (Compare("le", R0, R1), "exists (P0:r0<=P1:r1)"),
        (Connective("or", (BOTH, Compare("eq", X, -1))), "exists ((P0:r0=0 /\\ P1:r1=0) \\/ x=-1)"),
        (Connective("not", (BOTH,)), "exists (~(P0:r0=0 /\\ P1:r1=0))"),
        (Connective("not", (Compare("eq", X, 1),)), "exists (~(x=1))"),
        (Connective("not", (Connective("not", (TRUE,)),)), "exists (~(~(true)))"),
        (Connective("or", (BOTH, BOTH)),
         "exists ((P0:r0=0 /\\ P1:r1=0) \\/ (P0:r0=0 /\\ P1:r1=0))"),
        (Connective("not", (Connective("or", (BOTH, BOTH)),)),
         "exists (~((P0:r0=0 /\\ P1:r1=0) \\/ (P0:r0=0 /\\ P1:r1=0)))"),
    ],
)  # fmt: skip
def test_a_condition_without_text(condition: Condition, text: str) -> None:
    assert quantified(store_buffering(condition=condition)) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("exists\n  (P0:r0 == 0\n   /\\ 1:r1=0)", "exists (P0:r0 == 0 /\\ 1:r1=0)"),
        ("permit (r0 != 2)", "exists (P0:r0=0 /\\ P1:r1=0)"),
    ],
)
def test_a_condition_as_written(written: str, text: str) -> None:
    assert quantified(store_buffering(condition_text=written)) == text


def test_addresses_have_names_where_a_test_takes_them() -> None:
    address = store_buffering().addresses["y"]
    states = [{R0: address, R1: 7}]
    takes = replace(store_buffering().threads[0], registers=(("r2", AddressOf("y")),))
    test = store_buffering(threads=(takes,))
    assert "\nP0:r0=&y; P1:r1=7;\n" in herd(outcome(test, states=states))
    assert f"\nP0:r0={address}; P1:r1=7;\n" in herd(outcome(states=states))


# --- the hash -------------------------------------------------------------------------------------


def spaced(test: Test) -> Test:
    code = tuple(
        replace(each, text=each.text.replace(",", " ,  ")) for each in test.threads[0].code
    )
    return replace(test, threads=(replace(test.threads[0], code=code), *test.threads[1:]))


SAME = (
    store_buffering(name="other", path="a.litmus", description=("prose",), text="(* text *)"),
    store_buffering(condition_text="exists (P0:r0 = 0 /\\ P1:r1 = 0)"),
    spaced(store_buffering()),
)
DIFFERENT = (
    store_buffering(quantifier="~exists"),
    store_buffering(condition=TRUE),
    store_buffering(filter=BOTH),
    store_buffering(shown=(X,)),
    store_buffering(locations=(Location("x", "x", "x", initial=1), Location("y", "y", "y"))),
    store_buffering(threads=store_buffering().threads[:1]),
    store_buffering(threads=tuple(replace(each, cta=0) for each in store_buffering().threads)),
    store_buffering(threads=(Thread("P0", (Move(HERE, "mov r0, 1", "r0", 1),)),)),
    store_buffering(threads=(Thread("P0", (Branch(HERE, "goto A", 0),)),)),
    store_buffering(threads=(Thread("P0", (Branch(HERE, "goto A", 1),)),)),
    store_buffering(threads=(Thread("P0", (), registers=(("r0", AddressOf("x")),)),)),
)


@pytest.mark.parametrize("test", SAME)
def test_the_hash_ignores_layout_and_names(test: Test) -> None:
    assert hash_of(test) == hash_of(store_buffering())
    assert re.fullmatch("[0-9a-f]{32}", hash_of(test))


def test_the_hash_tells_tests_apart() -> None:
    assert len({hash_of(test) for test in (store_buffering(), *DIFFERENT)}) == 1 + len(DIFFERENT)


# --- our lines ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {"races": [Race("T0 line 4: st.weak x, 1", "T1 line 9: ld.weak r0, x", "x")] * 2},
            [
                "Flag data-race (PTX §8.7.1)",
                "Race a: T0 line 4: st.weak x, 1 | T1 line 9: ld.weak r0, x  on x",
                "Race b: T0 line 4: st.weak x, 1 | T1 line 9: ld.weak r0, x  on x",
            ],
        ),
        ({"bound": 4}, ["Bound 4: so often may a loop go round with other register values"]),
        (
            {"complete": False, "cut": ("loops of P0",)},
            ["Cut: loops of P0", "Perhaps --engine smt gets further, or a longer --timeout"],
        ),
        ({"unfinished": True}, [
            "Flag unfinished: some runs may wait for ever (--property termination says which)"
        ]),
        ({"hangs": ("P0 waits at line 5",)}, ["Hang P0 waits at line 5"]),
    ],
)  # fmt: skip
def test_lines_that_apply_sometimes(changes: dict[str, Any], lines: list[str]) -> None:
    shown = herd(outcome(**changes)).splitlines()
    plain = re.sub("Hash.*\n", "", herd(outcome())).splitlines()
    assert [line for line in shown[13:] if line not in plain] == lines


def test_termination_is_another_question() -> None:
    lines = herd(outcome(asked="termination", hangs=("forever",))).splitlines()
    assert (lines[0], lines[6], lines[9]) == (
        "Test SB Required",
        "No",
        "Condition every fair run ends",
    )


def test_the_witness_in_words() -> None:
    assert herd(outcome(witness=WITNESS)).partition("\n\n")[2] == (
        "Witness: P0:r0=0; P1:r1=0;\n"
        "  P0  a  st.weak x, 1   W[x]=1            line 5\n"
        "  P0  b  ld.weak r0, y  R[y]=0            line 6\n"
        "  P1  c  ld.weak r1, x  R[x]=0 from init  line 16\n"
    )


@pytest.mark.parametrize(("r0", "title"), [(0, "Witness"), (1, "Counterexample")])
def test_what_an_execution_shows(r0: int, title: str) -> None:
    picture = replace(WITNESS, state=(("P0:r0", r0), ("P1:r1", 0)))
    test = store_buffering(quantifier="forall")
    assert f"\n\n{title}: P0:r0={r0};" in herd(outcome(test, witness=picture))


def test_what_forbids_an_outcome() -> None:
    cycle = (EDGES[1], EdgeView("fr", "c", "a"), EdgeView("sync", "a", "i", "release-acquire"))
    picture = replace(WITNESS, axiom="causality", section="PTX §8.10", cycle=cycle)
    text = herd(outcome(forbidden=picture, positive=0)).partition("\n\n")[2]
    assert text.splitlines() == [
        "Forbidden by causality (PTX §8.10): P0:r0=0; P1:r1=0;",
        "  init  i                 W[x]=0",
        "  P0    a  st.weak x, 1   W[x]=1            line 5",
        "  P0    b  ld.weak r0, y  R[y]=0            line 6",
        "  P1    c  ld.weak r1, x  R[x]=0 from init  line 16",
        "  cycle  i -rf-> c -fr-> a -sync[release-acquire]-> i",
    ]


@pytest.mark.parametrize(
    ("edges", "text"),
    [
        ("", ""),
        ("rf:a:b", "a -rf-> b"),
        ("rf:a:b fr:b:a", "a -rf-> b -fr-> a"),
        ("po:a:b co:c:d", "a -po-> b; c -co-> d"),
    ],
)
def test_a_chain_of_edges(edges: str, text: str) -> None:
    assert chain([EdgeView(*edge.split(":")) for edge in edges.split()]) == text


def test_control_characters_do_not_reach_the_terminal() -> None:
    test = store_buffering(name="S\x1b[31mB", condition_text="exists (x=1\x07)")
    assert set(herd(outcome(test))) & {chr(code) for code in range(32)} == {"\n"}
