"""What a parser of `lark` refuses, in words: what was found, and what would have been legal."""

from __future__ import annotations

from lark import Lark, UnexpectedInput
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from ...model.axiomatic.code import Place
from .directives import place_of
from .syntax import Mistake

READABLE = {
    "$END": "the end of the file",
    "HEADER": "`PTX NAME`",
    "NAME": "a name",
    "NUMBER": "a number",
    "LABEL": "a label",
    "OPCODE": "an instruction",
    "COMPARE": "a comparison",
    "EQUAL": "`=`",
    "NOT": "`~`",
    "THREAD": "a thread like `d0.b0.t0`",
}

HINTS = {
    "+": "an address is a location such as `x` or `x[1]`",
    ".": "a modifier follows its opcode without a blank, for example `ld.relaxed.gpu`",
    "-": "a sign stands before a number, without a blank",
}
"""What to write instead, for characters that PTX has and this language has not."""

MISPLACED = {
    "@": ("OPCODE", "no predicates; branch around an instruction, as by `beq r1, 0, LABEL`"),
    "{": ("NUMBER", "no vectors; every value is one word"),
}
"""The same for characters that are legal elsewhere: where one of these terminals was legal."""


def syntax_mistake(error: UnexpectedInput, text: str, grammar: Lark) -> Mistake:
    """What was found, and what would have been legal there, in words."""
    if isinstance(error, UnexpectedToken):
        token = error.token
        terminals = set(error.accepts)
        legal = f"expected {wanted(terminals, grammar)}"
        if token.type == "$END":
            end = len(text.rstrip())
            return Mistake(place_of(text, end), f"unexpected end of the file; {legal}")
        place = Place(token.line or 1, token.column or 1)
        terminal, hint = MISPLACED.get(token, ("", ""))
        legal = hint if terminal in terminals else legal
        return Mistake(place, f"unexpected `{shortened(token)}`; {legal}")
    assert isinstance(error, UnexpectedCharacters)
    place = Place(error.line, error.column)
    character = str(error.char)
    legal = HINTS.get(character) or f"expected {wanted(set(error.allowed or ()), grammar)}"
    return Mistake(place, f"unexpected `{character}`; {legal}")


def shortened(token: str) -> str:
    words = " ".join(token.split())
    return words if len(words) <= 40 else f"{words[:37]}..."


def wanted(terminals: set[str], grammar: Lark) -> str:
    """Terminal names as a short readable list."""
    words = sorted(readable(name, grammar) for name in terminals)
    if len(words) > 8:
        words = [*words[:8], "..."]
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def readable(terminal: str, grammar: Lark) -> str:
    if terminal in READABLE:
        return READABLE[terminal]
    return f"`{grammar.get_terminal(terminal).pattern.value}`"
