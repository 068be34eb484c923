"""Litmus tests as text -> `Test`: the parts of a file, one table a part."""

from __future__ import annotations

from pathlib import Path

import pytest
from lark import Lark
from lastread.litmus.language.parser import GRAMMAR, parse
from lastread.model.axiomatic.code import (
    AddressOf,
    Branch,
    Compare,
    Condition,
    Connective,
    Final,
    RegisterAt,
    Test,
)
from lastread.model.instructions import Proxy
from lastread.model.program import Space

MESSAGE_PASSING = """\
(* Message passing (* with a nested comment *)
   through a flag.
   @section PTX §8.8
   @expect fails
   @expect holds isa=6.0,7.5 reading=strict
*)
PTX MP+rel.gpu+acq.gpu
"Message passing"
{
x = 0; y @ generic aliases x;
P1:r1 = 7;
}
 P0@cta 0,gpu 0       | P1@cta 1,gpu 0       ;
 st.weak x, 1         | ld.acquire.gpu r0, f ; (* a comment *)
 st.release.gpu f, 1  | bne r0, 1, LC0       ;
                      | ld.weak r1, y        ;
                      | LC0:                 ;
locations [x; P1:r0;]
filter P1:r0 = 1
exists (P1:r0 = 1 /\\ 1:r1 = 0)
"""

INIT = "x = 0;"
THREADS = "P0@cta 0 | P1@cta 1"


def small(
    init: str = INIT,
    threads: str = THREADS,
    code: str = "st.weak x, 1 | ld.weak r1, x ;",
    question: str = "exists P1:r1 = 1",
) -> Test:
    return parse(f"PTX small\n{{ {init} }}\n{threads} ;\n{code}\n{question}\n", "small.litmus")


def test_a_whole_test() -> None:
    test = parse(MESSAGE_PASSING, "folder/file.litmus")
    assert test.name == "MP+rel.gpu+acq.gpu"
    assert test.path == "folder/file.litmus"
    assert test.text == MESSAGE_PASSING
    assert test.description == (
        "Message passing  with a nested comment", "through a flag.", "Message passing",
    )  # fmt: skip
    assert test.expectations == (("", "fails"), ("isa=6.0,7.5 reading=strict", "holds"))
    assert [thread.name for thread in test.threads] == ["P0", "P1"]
    assert [len(thread.code) for thread in test.threads] == [2, 3]
    assert test.threads[1].registers == (("r1", 7),)
    assert [location.name for location in test.locations] == ["x", "y", "f"]
    assert test.quantifier == "exists"
    assert test.condition_text == "exists (P1:r0 = 1 /\\ 1:r1 = 0)"
    assert test.shown == (Final("x"), RegisterAt("P1", "r0"))
    assert test.filter == Compare("eq", RegisterAt("P1", "r0"), 1)


def test_places_are_those_of_the_file() -> None:
    first, second = parse(MESSAGE_PASSING).threads
    assert first.code[0].place == (14, 2)
    assert second.code[0].place == (14, 25)
    assert first.code[0].text == "st.weak x, 1"


def test_a_label_is_the_index_of_the_next_statement() -> None:
    branch = parse(MESSAGE_PASSING).threads[1].code[1]
    assert isinstance(branch, Branch) and branch.target == 3


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("PTX MP", "MP"),
        ("PTX", "stem"),
        ('PTX "a title"', "stem"),
        ("PTX SB+a.b-c's", "SB+a.b-c's"),
        ('PTX MP "a { brace"', "MP"),
        ("PTX MP(1)", "MP"),
    ],
)
def test_names(header: str, name: str) -> None:
    text = header + "\n{ }\nP0 ;\nst.weak x, 1 ;\nexists x = 1"
    assert parse(text, "a/stem.litmus").name == name


# --- the init block -------------------------------------------------------------------------------

LOCATIONS = [
    ("x", "x", Space.GLOBAL, -1, 0),
    ("x = 3", "x", Space.GLOBAL, -1, 3),
    ("x = -0x10", "x", Space.GLOBAL, -1, -16),
    ("global x = 1", "x", Space.GLOBAL, -1, 1),
    ("x[0] = 4", "x", Space.GLOBAL, -1, 4),
    ("x[3] = 1", "x[3]", Space.GLOBAL, -1, 1),
    ("y = 2; x = &y", "x", Space.GLOBAL, -1, 2),
    ("y = 2; x = y", "x", Space.GLOBAL, -1, 2),
    ("shared s", "s", Space.SHARED, 0, 0),
    ("shared s @ cta 1 = 3", "s", Space.SHARED, 1, 3),
    ("tmem t = 5", "t", Space.TMEM, 0, 5),
]


@pytest.mark.parametrize(("init", "name", "space", "cta", "initial"), LOCATIONS)
def test_locations(init: str, name: str, space: Space, cta: int, initial: int) -> None:
    location = small(init + ";").named[name]
    assert (location.space, location.cta, location.initial) == (space, cta, initial)


def test_an_element_lies_where_its_array_lies() -> None:
    test = small("shared s", code="st.weak s[2], 1 | ld.weak r1, x;")
    assert test.named["s[2]"].space is Space.SHARED


def test_aliases() -> None:
    """A generic alias has an address of its own; a view has that of its target (§8.6)."""
    test = small("x = 1; y @ generic aliases x; s @ surface aliases y; t @ texture aliases x;")
    found = {location.name: location for location in test.locations}
    assert {location.memory for location in found.values()} == {"x"}
    assert {location.initial for location in found.values()} == {1}
    assert [found[name].address for name in "xyst"] == ["x", "y", "y", "x"]
    assert found["s"].proxy is Proxy.SURFACE


def test_registers() -> None:
    test = small("x = 0; P0:r1 = 2; 0:r2 = &x; P0:r3 = x; P0:r4 = 0; P1:r1 = &z;")
    assert test.threads[0].registers == (("r1", 2), ("r2", AddressOf("x")), ("r3", AddressOf("x")))
    assert test.threads[1].registers == (("r1", AddressOf("z")),)


def test_barriers() -> None:
    """With a count it is initialised; without one it is memory that mbarrier.init sets up."""
    init = "x = 0; mbarrier a count 2; mbarrier b @ cta 1; mbarrier c;"
    code = "mbarrier.init b, 1 | ld.weak r1, x ;\nmbarrier.init c, 1 | ;"
    a, b, c = small(init, code=code).barriers
    assert (a.count, a.cta, a.region) == (2, 0, None)
    assert (b.count, b.cta) == (None, 1)
    assert b.region is not None and c.region is not None
    assert b.region.columns != c.region.columns


# --- the threads ----------------------------------------------------------------------------------

SEATS = [
    ("P0 | P1", [(0, 0, 0, 0), (1, 0, 0, 0)]),
    ("P0@cta 0,gpu 0 | P1@cta 0,gpu 1", [(0, 0, 0, 0), (0, 1, 1, 1)]),
    ("P0@gpu 0, cta 4 | P1@cta 5", [(0, 0, 0, 0), (0, 1, 0, 0)]),
    ("P0@cta 1,cluster 1 | P1@cta 1,cluster 2", [(0, 0, 0, 0), (0, 1, 1, 0)]),
    ("P0@warp 0 | P1@warp 0", [(0, 0, 0, 0), (0, 0, 0, 0)]),
    ("P0 | P1@warp 0", [(1, 0, 0, 0), (0, 0, 0, 0)]),
]


@pytest.mark.parametrize(("threads", "wanted"), SEATS)
def test_places_of_threads(threads: str, wanted: list[tuple[int, ...]]) -> None:
    """Warp, CTA, cluster, GPU; numbers of CTAs and clusters are unique over the test."""
    found = small(threads=threads).threads
    assert [(each.warp, each.cta, each.cluster, each.gpu) for each in found] == wanted


def test_a_row_may_have_more_cells_when_they_are_empty() -> None:
    assert len(small(code="st.weak x, 1 | ld.weak r1, x | | ;").threads) == 2


def test_a_label_may_stand_before_its_instruction() -> None:
    test = small(code="L: goto L | ld.weak r1, x ;")
    assert isinstance(test.threads[0].code[0], Branch)
    assert test.threads[0].code[0].target == 0


# --- the question ---------------------------------------------------------------------------------

ONE = Compare("eq", Final("x"), 1)
TWO = Compare("ne", RegisterAt("P1", "r1"), 2)
CONDITIONS = [
    ("x = 1", ONE),
    ("x == 0x1", ONE),
    ("[x] = 1", ONE),
    ("x[0] = 1", ONE),
    ("P1:r1 != 2", TWO),
    ("1:r1 != 2", TWO),
    ("P1: r1 < -1", Compare("lt", RegisterAt("P1", "r1"), -1)),
    ("x <= 1", Compare("le", Final("x"), 1)),
    ("x > 1", Compare("gt", Final("x"), 1)),
    ("1 >= x", Compare("ge", 1, Final("x"))),
    ("P1:r1 = &x", Compare("eq", RegisterAt("P1", "r1"), 0x10000)),
    ("x = 1 /\\ P1:r1 != 2", Connective("and", (ONE, TWO))),
    ("x = 1 \\/ P1:r1 != 2", Connective("or", (ONE, TWO))),
    ("~x = 1", Connective("not", (ONE,))),
    ("not (x = 1)", Connective("not", (ONE,))),
    ("true", Connective("and", ())),
    ("false", Connective("or", ())),
    (
        "x = 1 \\/ x = 1 /\\ (P1:r1 != 2 \\/ x = 1)",
        Connective("or", (ONE, Connective("and", (ONE, Connective("or", (TWO, ONE)))))),
    ),
]


@pytest.mark.parametrize(("text", "wanted"), CONDITIONS)
def test_conditions(text: str, wanted: Condition) -> None:
    assert small(question=f"exists {text}").condition == wanted
    assert small(question=f"filter {text}\nexists true").filter == wanted


@pytest.mark.parametrize(
    ("word", "quantifier"),
    [
        ("exists", "exists"), ("~exists", "~exists"), ("~ exists", "~exists"),
        ("not exists", "~exists"), ("forall", "forall"),
    ],
)  # fmt: skip
def test_quantifiers(word: str, quantifier: str) -> None:
    assert small(question=f"{word} (x = 1)").quantifier == quantifier


# --- the grammar ----------------------------------------------------------------------------------


def alternatives(parser: Lark) -> set[str]:
    """The names that nodes of the tree can have, without helpers of lark's."""
    names = (rule.alias or rule.origin.name for rule in parser.rules)
    inlined = ("condition", "conjunction", "negation", "quantity", "operand", "value", "clause")
    return {name for name in names if not name.startswith("_") and name not in inlined}


def test_every_alternative_of_the_grammar_occurs() -> None:
    parser = Lark(Path(GRAMMAR).read_text(encoding="utf-8"), parser="lalr")
    init = "".join(f"{each[0]};" for each in LOCATIONS)
    init += "y @ generic aliases x; P0:r1 = 1; mbarrier b @ cta 1 count 2; x = &y; x = y"
    conditions = " /\\ ".join(f"({text})" for text, _ in CONDITIONS)
    code = "L: ld.weak r, [x] | st x, 1 ; mov r, &x | ;"
    clauses = f"locations [x; 0:r1] filter x = 1 exists {conditions}"
    texts = [f"PTX a {{ {init} }} P0@cta 1 | P1 ; {code} {clauses}"]
    texts += [f"PTX a {{ }} P0 ; {word} x = 1" for word in ("~exists", "forall")]
    found = {tree.data for text in texts for tree in parser.parse(text).iter_subtrees()}
    assert alternatives(parser) <= found
