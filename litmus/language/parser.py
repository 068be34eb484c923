"""Text of a litmus test -> `Test`. Mistakes become `InputError`s with line, column and a remedy."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import cast

from lark import Lark, UnexpectedInput

from ...model.axiomatic.code import Test
from .assembly import assemble
from .directives import blanked, header_start, place_of, read_directives
from .script import Parts, Row, ToScript
from .syntax import Code, Label, Line, Mistake, Script, check_size
from .syntax_errors import syntax_mistake

GRAMMAR = Path(__file__).with_name("litmus.lark")

HEADER = re.compile(r'PTX[ \t]*([^\s"{(]*)')


@cache
def lark() -> Lark:
    """The parser. Its tables take a tenth of a second to make, so only who parses makes them."""
    return Lark(
        GRAMMAR.read_text(encoding="utf-8"),
        parser="lalr",
        maybe_placeholders=True,
        transformer=ToScript(),
    )


def parse(text: str, path: str = "") -> Test:
    """The test that `text` describes; `path` names it in errors, and it when it has no name."""
    try:
        return assemble(read(text, Path(path).stem), path, text)
    except Mistake as mistake:
        raise mistake.within(path) from None


def read(text: str, stem: str) -> Script:
    """The script of a test: comments, header, then the grammar."""
    check_size(text)
    blank = blanked(text.expandtabs(1))
    start = header_start(blank)
    check_header(blank, start)
    try:
        parts = cast(Parts, lark().parse(blank))  # the transformer makes them
    except UnexpectedInput as error:
        raise syntax_mistake(error, blank, lark()) from None
    found = read_directives(text, start)
    name, titles = header_of(parts.header)
    return Script(
        name=name or stem or "test",
        columns=parts.columns,
        code=columns_of(parts),
        quantifier=parts.quantifier,
        condition=parts.condition,
        settings=parts.settings,
        filter=parts.filter,
        shown=parts.shown,
        description=(*found.prose, *titles),
        condition_text=" ".join(blank[parts.question :].split()),
        expectations=found.expectations,
    )


def check_header(blank: str, start: int) -> None:
    """The file starts with `PTX`."""
    if blank.startswith("PTX", start):
        return
    found = re.match(r"\w*", blank[start:])
    word = found.group()[:20] if found else ""
    what = f"the file starts with `{word}`" if word else "this is no litmus test"
    raise Mistake(place_of(blank, start), f"{what}; a litmus test for PTX starts with `PTX NAME`")


def header_of(header: str) -> tuple[str, tuple[str, ...]]:
    """The test's name and its quoted titles."""
    found = HEADER.match(header)
    titles = re.findall(r'"([^"]*)"', header)
    return found.group(1) if found else "", tuple(" ".join(title.split()) for title in titles)


def columns_of(parts: Parts) -> tuple[Code, ...]:
    """The code of each thread: the cells of its column."""
    columns: list[list[Label | Line]] = [[] for _ in parts.columns]
    for row in parts.rows:
        check_width(row, len(columns))
        for column, cell in zip(columns, row.cells, strict=False):
            column += cell
    return tuple(tuple(column) for column in columns)


def check_width(row: Row, threads: int) -> None:
    """A row has a cell for each thread; more are allowed while they are empty."""
    count = f"{threads} thread{'s' if threads > 1 else ''} in the first row"
    for cell in row.cells[threads:]:
        if cell:
            raise Mistake(cell[0].place, f"this row has {len(row.cells)} cells for {count}")
    if len(row.cells) < threads:
        cells = f"{len(row.cells)} cell{'s' if len(row.cells) > 1 else ''}"
        raise Mistake(row.end, f"this row ends after {cells}, for {count}; a cell may be empty")
