"""The comments before a test: what a corpus says about it, and prose for the learner.

A line that starts with `@` is a directive: `@section PLACE`, `@rule NAME...` and
`@expect holds|fails|race|no-race [isa=V,...] [reading=N,...]`. The other lines are prose.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...model.axiomatic.code import Place
from ...model.suggest import suggestion
from .syntax import Mistake

DIRECTIVES = ("section", "rule", "expect")
ANSWERS = ("holds", "fails", "race", "no-race")
CONDITIONS = ("isa", "reading")


class Directives(NamedTuple):
    """What the comments before `PTX` say."""

    sections: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    expectations: tuple[tuple[str, str], ...] = ()
    prose: tuple[str, ...] = ()


def directives_of(text: str) -> Directives:
    """The directives of a test's text; `Mistake` when one is malformed."""
    end = header_start(blanked(text))
    return read_directives(text, end)


def header_start(blank: str) -> int:
    found = re.search(r"\S", blank)
    return found.start() if found else len(blank)


def read_directives(text: str, end: int) -> Directives:
    """The directives and prose in the comments of `text[:end]`."""
    sections: list[str] = []
    rules: list[str] = []
    expectations: list[tuple[str, str]] = []
    prose: list[str] = []
    for number, line in enumerate(text[:end].split("\n"), 1):
        content = line.replace("(*", "").replace("*)", "").strip()
        if not content.startswith("@"):
            prose.append(content)
            continue
        place = Place(number, line.index("@") + 1)
        word, _, rest = content[1:].partition(" ")
        if word == "section":
            sections.append(rest.strip())
        elif word == "rule":
            rules += rest.split()
        elif word == "expect":
            expectations.append(expectation(rest.split(), place))
        else:
            known = suggestion(word, DIRECTIVES) or f"; known: {', '.join(DIRECTIVES)}"
            raise Mistake(place, f"unknown directive `@{word}`{known}")
    return Directives(tuple(sections), tuple(rules), tuple(expectations), trimmed(prose))


def expectation(words: list[str], place: Place) -> tuple[str, str]:
    """`holds isa=9.4` as its condition and its answer."""
    if not words or words[0] not in ANSWERS:
        raise Mistake(place, f"`@expect` needs an answer: {', '.join(ANSWERS)}")
    for word in words[1:]:
        key, _, value = word.partition("=")
        if key not in CONDITIONS or not value:
            raise Mistake(place, f"`{word}` is no condition; write isa=VERSION or reading=NAME")
    return " ".join(words[1:]), words[0]


def trimmed(lines: list[str]) -> tuple[str, ...]:
    """Without blank lines at both ends."""
    full = [index for index, line in enumerate(lines) if line]
    return tuple(lines[full[0] : full[-1] + 1]) if full else ()


# --- comments -------------------------------------------------------------------------------------


def blanked(text: str) -> str:
    """The text with its comments, which nest, as blanks: every other character keeps its place."""
    if "(*" not in text:
        return text
    parts: list[str] = []
    opened: list[int] = []
    end = 0
    for mark in re.finditer(r"\(\*|\*\)", text):
        if mark.group() == "(*":
            if not opened:
                parts.append(text[end : mark.start()])
            opened.append(mark.start())
        elif opened:
            start = opened.pop()
            if not opened:
                parts.append(re.sub(r"[^\n]", " ", text[start : mark.end()]))
                end = mark.end()
    if opened:
        raise Mistake(place_of(text, opened[0]), "a comment that is never closed; end it with `*)`")
    return "".join(parts) + text[end:]


def place_of(text: str, index: int) -> Place:
    """Line and column of a character."""
    return Place(text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index))
