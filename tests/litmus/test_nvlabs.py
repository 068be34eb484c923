"""The test format of NVlabs/mixedproxy."""

from __future__ import annotations

from pathlib import Path

import pytest
from lark import Lark
from lastread.litmus.language.nvlabs import GRAMMAR, parse
from lastread.model.axiomatic.code import (
    Act,
    AddressOf,
    Compare,
    Connective,
    Final,
    RegisterAt,
)
from lastread.model.instructions import Proxy
from lastread.model.program import InputError

WHOLE = """\
.global x;                        // a comment
.global y physically aliases x;
.surfref s virtually aliases y;
.global flag;

d0.b0.t0 {
  st [x], 2;
  fence.proxy.alias;
  st.release.gpu [flag], 1;
}

d0.b1.t0 {
  ld.acquire.gpu r0, [flag] == 1;
  suld r1, [s];
}

permit (r1 == 2 && !(r0 != 1 || [x] < 2)) as one;
assert (r1 == 2);
"""

TEMPLATE = """\
.global x;
.texref t virtually aliases x;

d0.b0.t0 {
  $0, 1;
  $1
  $2 r0, $3;
}

$4(r0 $5 1) as r0;

$$

st [x] |                      | ld  | [x] | assert | ==

st [x] | fence.proxy.texture; | tld | [t] | permit | !=
"""


def test_a_file_with_two_questions_is_two_tests() -> None:
    first, second = parse(WHOLE, "folder/MP.test")
    assert (first.name, second.name) == ("MP.one", "MP")
    assert (first.quantifier, second.quantifier) == ("exists", "forall")
    assert second.condition == Compare("eq", RegisterAt("d0.b1.t0", "r1"), 2)
    assert first.condition_text == "permit (r1 == 2 && !(r0 != 1 || [x] < 2))"


def test_names_in_the_condition_are_registers_and_brackets_are_memory() -> None:
    r0, r1 = RegisterAt("d0.b1.t0", "r0"), RegisterAt("d0.b1.t0", "r1")
    inner = Connective("or", (Compare("ne", r0, 1), Compare("lt", Final("x"), 2)))
    wanted = Connective("and", (Compare("eq", r1, 2), Connective("not", (inner,))))
    assert parse(WHOLE)[0].condition == wanted


def test_a_compared_load_filters() -> None:
    wanted = Compare("eq", RegisterAt("d0.b1.t0", "r0"), 1)
    assert parse(WHOLE)[0].filter == Connective("and", (wanted,))


def test_declarations_and_threads() -> None:
    test = parse(WHOLE)[0]
    assert [(each.name, each.cta, each.gpu) for each in test.threads] == [
        ("d0.b0.t0", 0, 0), ("d0.b1.t0", 1, 0),
    ]  # fmt: skip
    assert {name: (at.memory, at.address) for name, at in test.named.items()} == {
        "x": ("x", "x"), "y": ("x", "y"), "s": ("x", "y"), "flag": ("flag", "flag"),
    }  # fmt: skip
    assert test.named["s"].proxy is Proxy.SURFACE


def test_each_row_of_a_template_is_a_test() -> None:
    first, second = parse(TEMPLATE, "CoWR.test")
    assert (first.name, second.name) == ("CoWR#1", "CoWR#2")
    assert (first.quantifier, second.quantifier) == ("forall", "exists")
    assert [len(test.threads[0].code) for test in (first, second)] == [2, 3]
    last = second.threads[0].code[-1]
    assert isinstance(last, Act) and last.addresses == (AddressOf("t"),)
    assert "$" not in first.text and "fence" in second.text


MISTAKES = [
    (TEMPLATE.replace("| tld ", "| tdl "), "16:33", "did you mean `tld`? (in x#2)"),
    (TEMPLATE.replace("| permit | !=", "| permit"), "16:1", "the row has 5 cells"),
    (TEMPLATE.replace("| !=", "| != | 3"), "16:58", "no hole $6 for this cell"),
    (TEMPLATE.replace("(r0 $5", "(r7 $5"), "10:4", "no thread sets a register `r7`"),
    (WHOLE.replace("ld.acquire", "ld.release"), "13:3", "`ld` cannot be .release"),
    (WHOLE.replace("r0, [flag] ==", "r0 =="), "13:3", "1 operand; the form is"),
    (WHOLE.replace("st [x], 2;", "st [x], 2 == 1;"), "7:3", "only the value that a register gets"),
    (WHOLE.replace(".surfref s virtually", ".surfref s physically"), "3:2", "cannot physically"),
    (WHOLE.replace(".global flag", ".texref flag"), "4:2", "needs `virtually aliases NAME`"),
    (WHOLE.replace("permit (r1", "permit (r1 = 1 && r1"), "17:12", "unexpected `=`"),
    (WHOLE.replace("suld r1", "suld r0").replace("r1", "r0").replace("st [x], 2", "ld r0, [x]"),
     "17:9", "set by d0.b0.t0 and d0.b1.t0"),
    ("", "1:1", "unexpected end of the file"),
    (WHOLE.split("permit")[0], "15:2", "unexpected end of the file"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "message"), MISTAKES)
def test_mistakes(text: str, place: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, "x.test")
    assert caught.value.where == f"x.test:{place}"
    assert message in caught.value.message


def test_every_alternative_of_the_grammar_occurs() -> None:
    parser = Lark(Path(GRAMMAR).read_text(encoding="utf-8"), parser="lalr")
    found = {tree.data for tree in parser.parse(WHOLE).iter_subtrees()}
    names = {rule.alias or rule.origin.name for rule in parser.rules}
    inlined = {"statement", "operand", "condition", "conjunction", "negation", "quantity"}
    assert {name for name in names if not name.startswith("_")} - inlined <= found
