"""Executions as dot: what is drawn, in which colours, and that nothing in a test can break it."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from lastread.litmus.pictures import COLOURS, digraph, pictures, quoted
from lastread.model.axiomatic.code import TRUE, Test, Thread
from lastread.model.axiomatic.outcome import EdgeView, EventView, Outcome, Picture

TEST = Test("MP", (Thread("P0", ()), Thread("P1", ())), (), "exists", TRUE)
EVENTS = (
    EventView("i", -1, 0, "", "W[x]=0"),
    EventView("a", 0, 0, "st.weak x, 1", "W[x]=1", 4),
    EventView("b", 1, 0, "ld.weak r0, x", "R[x]=0", 5),
)
EDGES = (EdgeView("rf", "i", "b"), EdgeView("fr", "b", "a"))
PICTURE = Picture(EVENTS, EDGES, (("P1:r0", 0),))
FORBIDDEN = replace(
    PICTURE,
    axiom="causality",
    section="PTX §8.10",
    cycle=(EDGES[1], EdgeView("sync", "a", "b", "release-acquire")),
)


def test_a_digraph() -> None:
    assert digraph(PICTURE, TEST, "MP: allowed") == (
        'digraph "MP: allowed" {\n'
        '  graph [label="MP: allowed\\nP1:r0=0;", labelloc=t, newrank=true, nodesep=0.9]\n'
        "  node [shape=none, height=0, width=0, margin=0.05]\n"
        "  { rank=same; e1 -> e2 [style=invis] }\n"
        '  e0 [label="i: W[x]=0"]\n'
        "  subgraph cluster_0 {\n"
        '    label="P0"; color=gray\n'
        '    e1 [label="a: W[x]=1\\nline 4: st.weak x, 1"]\n'
        "  }\n"
        "  subgraph cluster_1 {\n"
        '    label="P1"; color=gray\n'
        '    e2 [label="b: R[x]=0\\nline 5: ld.weak r0, x"]\n'
        "  }\n"
        '  e0 -> e2 [label="rf", color="red", fontcolor="red", constraint="false"]\n'
        '  e2 -> e1 [label="fr", color="#ffa040", fontcolor="#ffa040", constraint="false"]\n'
        "}\n"
    )


@pytest.mark.parametrize(
    ("kind", "colour"),
    [
        ("po", "black"),
        ("rf", "red"),
        ("co", "blue"),
        ("fr", "#ffa040"),
        ("sync", "purple"),
        ("async", "darkgreen"),
        ("unheard-of", "gray40"),
    ],
)
def test_colours_are_fixed(kind: str, colour: str) -> None:
    text = digraph(replace(PICTURE, edges=(EdgeView(kind, "a", "b"),)), TEST, "")
    assert f'e1 -> e2 [label="{kind}", color="{colour}"' in text
    assert COLOURS.get(kind, colour) == colour


def outcome(**views: Picture) -> Outcome:
    return Outcome(TEST, "9.4", "ptx", "enumerate", **views)


def test_a_forbidden_candidate_has_its_axiom_and_a_bold_cycle() -> None:
    text = pictures(outcome(forbidden=FORBIDDEN))
    title = "MP (reading ptx, ISA 9.4): forbidden by causality (PTX §8.10)"
    assert text.startswith(f'digraph "{title}" {{\n  graph [label="{title}\\n')
    bold = [line for line in text.splitlines() if 'style="bold"' in line]
    assert [re.findall(r"e\d", line) for line in bold] == [["e2", "e1"], ["e1", "e2"]]
    assert 'label="sync: release-acquire"' in bold[1]
    assert text.count("  e2 -> e1") == 1


@pytest.mark.parametrize(
    ("views", "titles"),
    [
        ({"witness": PICTURE}, ["allowed"]),
        ({"forbidden": FORBIDDEN}, ["forbidden"]),
        ({"witness": PICTURE, "forbidden": FORBIDDEN}, ["forbidden", "allowed"]),
        ({}, []),
    ],
)
def test_one_digraph_an_execution(views: dict[str, Picture], titles: list[str]) -> None:
    text = pictures(outcome(**views))
    assert re.findall(r'^digraph "MP \(reading ptx, ISA 9.4\): (\w+)', text, re.M) == titles
    assert titles or text == "// MP (reading ptx, ISA 9.4): no execution to draw\n"


HOSTILE = [
    ("plain", '"plain"'),
    ("", '""'),
    ('a"b', '"a\\"b"'),
    ("a\\N", '"a\\\\N"'),
    ('\\"', '"\\\\\\""'),
    ("end\\", '"end\\\\"'),
    ("two\nlines\r\n", '"two\\nlines"'),
    ("<b>bold</b>", '"<b>bold</b>"'),
    ("&lt;&#65;", '"&amp;lt;&amp;#65;"'),
    ("&x, &y", '"&x, &y"'),
    ("\x00\x1b[31m", '"[31m"'),
    ("§ naïve", '"§ naïve"'),
]


@pytest.mark.parametrize(("text", "string"), HOSTILE)
def test_every_character_stands_for_itself(text: str, string: str) -> None:
    assert quoted(text) == string


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
@pytest.mark.parametrize("text", [text for text, _ in HOSTILE if "\x00" not in text])
def test_graphviz_accepts_hostile_names(text: str) -> None:
    test = replace(TEST, name=text, threads=(Thread(text, ()), Thread("P1", ())))
    events = tuple(replace(event, text=text, label=text) for event in EVENTS)
    shown = digraph(replace(FORBIDDEN, events=events, axiom=text), test, text)
    subprocess.run(["dot", "-Tsvg"], input=shown, text=True, check=True, capture_output=True)
