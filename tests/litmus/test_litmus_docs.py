"""The examples of docs/litmus-language.md are read by the parser; every instruction has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lastread.litmus.language.opcodes import ROWS, use_of
from lastread.litmus.language.parser import parse

PAGE = Path(__file__).resolve().parents[2] / "docs" / "litmus-language.md"
TEXT = PAGE.read_text(encoding="utf-8")
WHOLE = re.findall(r"^```litmus\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
LINES = [
    line.split("//")[0].strip()
    for block in re.findall(r"^```ptx\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]
INIT = "P0:r1 = &x; shared s; shared s2; tmem t; x = 0; v @ surface aliases x; mbarrier b count 1;"


@pytest.mark.parametrize("text", WHOLE)
def test_whole_tests(text: str) -> None:
    assert parse(text, str(PAGE)).threads


@pytest.mark.parametrize("line", LINES)
def test_instructions(line: str) -> None:
    code = f"mbarrier.init c, 1 ;\nL: {line} ;"
    parse(f"PTX a\n{{ {INIT} y = 0; mbarrier c; }}\nP0 ;\n{code}\nexists x = 1", str(PAGE))


def test_every_instruction_is_shown_or_named() -> None:
    shown = {use_of(line.split()[0]).row.name for line in LINES}
    named = set(re.findall(r"[\w.]+", TEXT))
    assert {row.name for row in ROWS} - shown <= named | {"barrier.cta.arrive"}
