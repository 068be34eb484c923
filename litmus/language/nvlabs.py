"""The test format of NVlabs/mixedproxy -> `Test`s.

A file is one program with one or more questions (`assert` or `permit`). When it has a line `$$`,
it is a template: each row below gives one instance, its cells filling the holes `$0`, `$1`, ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from lark import Lark, Token, UnexpectedInput, v_args

from ...model.axiomatic.code import Place, Test
from .assembly import assemble
from .directives import place_of
from .script import Common, at
from .syntax import (
    Alias,
    AtEnd,
    Code,
    Column,
    Combination,
    Comparison,
    ConditionNode,
    Declaration,
    Line,
    Mistake,
    Operand,
    Script,
    Setting,
    check_size,
    number_of,
)
from .syntax_errors import syntax_mistake

GRAMMAR = Path(__file__).with_name("nvlabs.lark")
VIEWS = {"surfref": "surface", "texref": "texture", "constref": "constant"}
SEPARATOR = re.compile(r"^[ \t]*\$\$[ \t]*$", re.MULTILINE)
HOLE = re.compile(r"\$(\d+)")
MAX_INSTANCES = 1000


class Constrained(NamedTuple):
    """`ld r0, [x] == 2`: only executions in which it reads 2 count."""

    line: Line
    wanted: Operand


class Strand(NamedTuple):
    """A thread of the file."""

    column: Column
    statements: tuple[Line | Constrained, ...]


class Question(NamedTuple):
    quantifier: str
    condition: ConditionNode
    label: str
    start: int
    end: int


class Program(NamedTuple):
    """A whole file, or one instance of a template."""

    settings: tuple[Setting, ...]
    strands: tuple[Strand, ...]
    questions: tuple[Question, ...]


@cache
def lark() -> Lark:
    return Lark(
        GRAMMAR.read_text(encoding="utf-8"),
        parser="lalr",
        maybe_placeholders=True,
        transformer=ToProgram(),
    )


def parse(text: str, path: str = "") -> list[Test]:
    """A test for each question of each instance; `path` names the file in errors."""
    stem = Path(path).stem or "test"
    try:
        check_size(text)
        tests = [test for filled in instances(text, stem) for test in tests_of(filled, path)]
    except Mistake as mistake:
        raise mistake.within(path) from None
    return tests


# --- templates ------------------------------------------------------------------------------------


class Filled(NamedTuple):
    """A program without holes. `pieces` says where each piece of it stands in the file."""

    name: str
    text: str
    pieces: tuple[tuple[int, int], ...]
    original: str

    def blame(self, mistake: Mistake) -> Mistake:
        """The mistake at its place in the file: in the table, when a cell of it is at fault."""
        lines = self.text.split("\n")[: mistake.place.line - 1]
        index = sum(len(line) + 1 for line in lines) + mistake.place.column - 1
        start, origin = max(piece for piece in self.pieces if piece[0] <= index)
        place = place_of(self.original, origin + index - start)
        suffix = f" (in {self.name})" if len(self.pieces) > 1 else ""
        return Mistake(place, mistake.message + suffix)


def instances(text: str, stem: str) -> Iterator[Filled]:
    """The file itself, or each row of its table filled in."""
    separator = SEPARATOR.search(text)
    if separator is None:
        yield Filled(stem, text, ((0, 0),), text)
        return
    rows = re.finditer(r"[^\n]*\S[^\n]*", text[separator.end() :])
    for number, row in enumerate(rows, 1):
        if number > MAX_INSTANCES:
            raise Mistake(Place(1, 1), f"more than {MAX_INSTANCES} instances")
        start = separator.end() + row.start()
        yield filled(f"{stem}#{number}", text, separator.start(), cells_of(row.group(), start))


def cells_of(row: str, start: int) -> list[tuple[int, str]]:
    """The cells of a table row, each with its place in the file."""
    found = re.finditer(r"[^|]+|(?<=\|)(?=\|)", row)
    return [(start + cell.start(), cell.group().rstrip()) for cell in found]


def filled(name: str, text: str, end: int, cells: list[tuple[int, str]]) -> Filled:
    """The template `text[:end]` with each hole replaced by its cell."""
    pieces, parts, length, last = [(0, 0)], [], 0, 0
    for hole in HOLE.finditer(text, 0, end):
        index = int(hole.group(1)[:4])
        if index >= len(cells):
            message = f"the row has {len(cells)} cells, and there is a hole {hole.group()}"
            raise Mistake(place_of(text, cells[0][0]), message)
        before, (origin, cell) = text[last : hole.start()], cells[index]
        pieces += [(length + len(before), origin), (length + len(before) + len(cell), hole.end())]
        parts += [before, cell]
        length, last = length + len(before) + len(cell), hole.end()
    parts.append(text[last:end])
    check_cells(text, end, cells)
    return Filled(name, "".join(parts), tuple(pieces), text)


def check_cells(text: str, end: int, cells: list[tuple[int, str]]) -> None:
    """Every cell has a hole."""
    holes = {int(hole[:4]) for hole in HOLE.findall(text[:end])}
    for index, (origin, _) in enumerate(cells):
        if index not in holes:
            raise Mistake(place_of(text, origin), f"no hole ${index} for this cell")


# --- tests ----------------------------------------------------------------------------------------


def tests_of(instance: Filled, path: str) -> Iterator[Test]:
    """A test for each question of the instance."""
    try:
        program = read(instance.text)
        for question in program.questions:
            yield assemble(script_of(instance, program, question), path, instance.text)
    except Mistake as mistake:
        raise instance.blame(mistake) from None


def read(text: str) -> Program:
    try:
        return cast(Program, lark().parse(text))  # the transformer makes it
    except UnexpectedInput as error:
        raise syntax_mistake(error, text, lark()) from None


def script_of(instance: Filled, program: Program, question: Question) -> Script:
    several = len(program.questions) > 1 and question.label
    constraints = tuple(
        Comparison(AtEnd(each.line.place, strand.column.name, register(each)), "==", each.wanted)
        for strand in program.strands
        for each in strand.statements
        if isinstance(each, Constrained)
    )
    return Script(
        name=f"{instance.name}.{question.label}" if several else instance.name,
        columns=tuple(strand.column for strand in program.strands),
        code=tuple(code_of(strand) for strand in program.strands),
        quantifier=question.quantifier,
        condition=question.condition,
        settings=program.settings,
        filter=Combination("and", constraints, 2) if constraints else None,
        condition_text=" ".join(instance.text[question.start : question.end].split()),
    )


def code_of(strand: Strand) -> Code:
    return tuple(each.line if isinstance(each, Constrained) else each for each in strand.statements)


def register(constrained: Constrained) -> str:
    """The register that a constrained load sets."""
    operands = constrained.line.operands
    if not operands or operands[0].bracketed or not operands[0].name:
        raise Mistake(constrained.line.place, "only the value that a register gets can be compared")
    return operands[0].name


# --- from the grammar to the program --------------------------------------------------------------


@v_args(inline=True)
class ToProgram(Common):
    """One method a grammar rule; those for instructions and conditions are inherited."""

    def start(self, *items: Any) -> Program:
        return Program(
            tuple(item for item in items if isinstance(item, Declaration | Alias)),
            tuple(item for item in items if isinstance(item, Strand)),
            tuple(item for item in items if isinstance(item, Question)),
        )

    def declaration(
        self, kind: Token, location: Operand, how: Token | None, target: Operand | None
    ) -> Setting:
        if target is None:
            if kind != "global":
                raise Mistake(at(kind), f"`.{kind}` needs `virtually aliases NAME`")
            return Declaration(location.place, location.name, "global")
        if kind == "global" and how == "physically":
            return Alias(location.place, location.name, "generic", target.name)
        if kind not in VIEWS or how != "virtually":
            legal = ".global NAME physically, or .surfref, .texref or .constref NAME virtually"
            raise Mistake(at(kind), f"`.{kind}` cannot {how} alias; legal: {legal} aliases NAME")
        return Alias(location.place, location.name, VIEWS[kind], target.name)

    def thread(self, name: Token, *statements: Any) -> Strand:
        place = at(name)
        device, block, _ = (number_of(part[1:], place) for part in name.split("."))
        levels = ((place, "cta", block), (place, "gpu", device))
        return Strand(Column(place, str(name), levels), statements)

    def location(self, name: Token) -> Operand:
        return Operand(at(name), str(name))

    def constrained(self, line: Line, number: Token) -> Constrained:
        return Constrained(line, self.number(number))

    def register(self, name: Token) -> AtEnd:
        return AtEnd(at(name), "", str(name))

    def question(
        self, kind: Token, condition: ConditionNode, close: Token, label: Token | None
    ) -> Question:
        quantifier = "forall" if kind == "assert" else "exists"
        start, end = kind.start_pos or 0, close.end_pos or 0
        return Question(quantifier, condition, str(label or ""), start, end)
