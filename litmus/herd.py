"""An outcome as herd7 prints it, then what herd does not say: races, bounds, why, an execution.

Pure functions from the engine's answer to text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from string import ascii_lowercase

from ..model.axiomatic.code import (
    AddressOf,
    Arithmetic,
    Branch,
    Compare,
    Condition,
    Move,
    Operand,
    Quantity,
    Register,
    Statement,
    Test,
    Thread,
    holds,
)
from ..model.axiomatic.outcome import EdgeView, EventView, Outcome, Picture

_KINDS = {"exists": "Allowed", "~exists": "Forbidden", "forall": "Required"}
_ANSWERS = {True: "Ok", False: "No", None: "Undecided"}
_SIGNS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TOKENS = re.compile(r"[\w.:%$#@]+|\S")


def herd(outcome: Outcome) -> str:
    """The block of one test in one reading, ready to print."""
    lines = (*_block(outcome), *_races(outcome), *_bounds(outcome), _reading(outcome))
    more = (*_hangs(outcome), *_forbidden(outcome), *_witness(outcome))
    return "".join(f"{printable(line).rstrip()}\n" for line in (*lines, *more))


def printable(text: str) -> str:
    """What a test's author wrote must not reach the terminal as control characters."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


# --- herd's block ---------------------------------------------------------------------------------


def _block(outcome: Outcome) -> Iterator[str]:
    test = outcome.test
    yield f"Test {test.name} {_kind(outcome)}"
    yield f"States {len(outcome.states)}"
    for state in outcome.states:
        yield _state(((str(name), value) for name, value in state.items()), test)
    yield _ANSWERS[outcome.holds]
    yield "Witnesses"
    yield f"Positive: {outcome.positive} Negative: {outcome.negative}"
    yield f"Condition {_question(outcome)}"
    yield (f"Observation {test.name} {outcome.observation} {outcome.positive} {outcome.negative}")
    yield f"Time {test.name} {outcome.seconds:.2f}"
    yield f"Hash={test_hash(test)}"


def _kind(outcome: Outcome) -> str:
    return "Required" if outcome.asked == "termination" else _KINDS[outcome.test.quantifier]


def _question(outcome: Outcome) -> str:
    if outcome.asked == "termination":
        return "every fair run ends"
    return quantified(outcome.test)


def _state(values: Iterable[tuple[str, int]], test: Test) -> str:
    return " ".join(f"{name}={_value(value, test)};" for name, value in values)


def _value(value: int, test: Test) -> str:
    """A number, or the address that it stands for in a test that takes addresses."""
    if any(isinstance(operand, AddressOf) for operand in _values_used(test)):
        for name, address in test.addresses.items():
            if value == address:
                return f"&{name}"
    return str(value)


def _values_used(test: Test) -> Iterator[Operand]:
    for thread in test.threads:
        yield from (value for _, value in thread.registers)
        for statement in thread.code:
            yield from _values_of(statement)


def _values_of(statement: Statement) -> Sequence[Operand]:
    if isinstance(statement, Move):
        return (statement.value,)
    if isinstance(statement, Arithmetic | Branch):
        return (statement.left, statement.right)
    return statement.operands


# --- the condition --------------------------------------------------------------------------------


def quantified(test: Test) -> str:
    """The quantified condition as it was written, on one line; else as herd would write it."""
    written = " ".join(test.condition_text.split())
    if written.startswith((*_KINDS, "not exists")):
        return written
    return f"{test.quantifier} ({_condition(test.condition, test)})"


def _condition(condition: Condition, test: Test) -> str:
    """Without parentheses around it."""
    if isinstance(condition, Compare):
        left, right = _quantity(condition.left, test), _quantity(condition.right, test)
        return f"{left}{_SIGNS[condition.comparison]}{right}"
    if condition.kind == "not":
        return f"~({_condition(condition.parts[0], test)})"
    if not condition.parts:
        return "true" if condition.kind == "and" else "false"
    sign = " /\\ " if condition.kind == "and" else " \\/ "
    return sign.join(_part(part, test) for part in condition.parts)


def _part(condition: Condition, test: Test) -> str:
    text = _condition(condition, test)
    return text if isinstance(condition, Compare) or len(condition.parts) < 2 else f"({text})"


def _quantity(quantity: Quantity, test: Test) -> str:
    return _value(quantity, test) if isinstance(quantity, int) else str(quantity)


# --- the hash -------------------------------------------------------------------------------------


def test_hash(test: Test) -> str:
    """Equal for tests that differ in layout, comments and name only: 32 hexadecimal digits."""
    text = "\n".join(" ".join(_TOKENS.findall(line)) for line in _canonical(test))
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _canonical(test: Test) -> Iterator[str]:
    for each in test.locations:
        where = f"{each.space.value} {each.cta} {each.proxy.value}"
        yield f"{each.name} {each.memory} {each.address} {where} = {each.initial}"
    for barrier in test.barriers:
        yield f"mbarrier {barrier.label} {barrier.cta} {barrier.count}"
    for thread in test.threads:
        yield from _canonical_thread(thread)
    yield f"locations {' '.join(map(str, test.shown))} filter {_condition(test.filter, test)}"
    yield f"{test.quantifier} {_condition(test.condition, test)}"


def _canonical_thread(thread: Thread) -> Iterator[str]:
    yield f"{thread.name} @ {thread.warp} {thread.cta} {thread.cluster} {thread.gpu}"
    for register, value in thread.registers:
        yield f"{register} = {_operand(value)}"
    for statement in thread.code:
        target = f" -> {statement.target}" if isinstance(statement, Branch) else ""
        yield statement.text + target


def _operand(operand: Operand) -> str:
    if isinstance(operand, Register):
        return operand.name
    return f"&{operand.name}" if isinstance(operand, AddressOf) else str(operand)


# --- races, bounds, how it was found --------------------------------------------------------------


def _races(outcome: Outcome) -> Iterator[str]:
    if outcome.races:
        yield "Flag data-race (PTX §8.7.1)"
    for number, race in enumerate(outcome.races):
        yield f"Race {_letter(number)}: {race.first} | {race.second}  on {race.location}"


def _letter(number: int) -> str:
    return f"{ascii_lowercase[number % 26]}{number // 26 or ''}"


def _bounds(outcome: Outcome) -> Iterator[str]:
    if outcome.bound is not None:
        yield f"Bound {outcome.bound}: so often may a loop go round with other register values"
    for what in outcome.cut:
        yield f"Cut: {what}"
    if outcome.cut and outcome.engine == "enumerate":
        yield "Perhaps --engine smt gets further, or a longer --timeout"
    if outcome.asked == "condition" and outcome.complete:
        if not outcome.states:
            yield "Flag vacuous: no run ends and passes the filter, so the condition says nothing"
        elif outcome.unfinished:
            yield "Flag unfinished: some runs may wait for ever (--property termination says which)"


def _reading(outcome: Outcome) -> str:
    return (
        f"Reading {outcome.reading}, ISA {outcome.isa}, engine {outcome.engine}, "
        f"{outcome.executions} executions of {outcome.candidates} candidates"
    )


def _hangs(outcome: Outcome) -> Iterator[str]:
    for line in outcome.hangs:
        yield f"Hang {line}"


# --- executions -----------------------------------------------------------------------------------


def _forbidden(outcome: Outcome) -> Iterator[str]:
    """Why no execution satisfies the condition: the axiom, the nearest candidate, its cycle."""
    picture = outcome.forbidden
    if picture is None:
        return
    yield ""
    yield f"Forbidden by {reason(picture)}: {_state(picture.state, outcome.test)}"
    yield from _execution(picture, outcome.test)
    if picture.cycle:
        yield f"  cycle  {chain(picture.cycle)}"


def reason(picture: Picture) -> str:
    """The axiom that forbids a candidate, with its place in the ISA."""
    return f"{picture.axiom} ({picture.section})" if picture.section else picture.axiom


def _witness(outcome: Outcome) -> Iterator[str]:
    picture = outcome.witness
    if picture is None:
        return
    yield ""
    yield f"{_title(picture, outcome.test)}: {_state(picture.state, outcome.test)}"
    yield from _execution(picture, outcome.test)


def _title(picture: Picture, test: Test) -> str:
    """A witness of the condition, or, of a `forall` that fails, of its negation."""
    values = dict(picture.state)
    state = {name: values[str(name)] for name in test.observed if str(name) in values}
    known = len(state) == len(test.observed)
    return "Counterexample" if known and not holds(test.condition, state) else "Witness"


def _execution(picture: Picture, test: Test) -> Iterator[str]:
    """A line for each event: thread, letter, instruction, what it did, and where it is."""
    in_cycle = {end for edge in picture.cycle for end in (edge.source, edge.target)}
    shown = [e for e in picture.events if e.thread >= 0 or e.letter in in_cycle]
    origins = _origins(picture)
    rows = [_row(event, test, origins.get(event.letter, "")) for event in shown]
    widths = [max(map(len, column), default=0) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))


def _row(event: EventView, test: Test, origin: str) -> tuple[str, ...]:
    thread = test.threads[event.thread].name if event.thread >= 0 else "init"
    text = " ".join(event.text.split())
    did = "" if event.label == text else event.label
    if origin:
        did = f"{did} from {origin}"
    return (thread, event.letter, text, did, f"line {event.line}" if event.line else "")


def _origins(picture: Picture) -> dict[str, str]:
    """Where each read has its value from: the letters of writes, or init."""
    initial = {event.letter for event in picture.events if event.thread < 0}
    found: dict[str, list[str]] = {}
    for edge in picture.edges:
        if edge.kind == "rf":
            source = "init" if edge.source in initial else edge.source
            found.setdefault(edge.target, []).append(source)
    return {target: ", ".join(sources) for target, sources in found.items()}


def chain(edges: Sequence[EdgeView]) -> str:
    """`a -rf-> b -fr-> a`; where an edge does not begin at the end of the last: `; c -po-> d`."""
    text, end = "", None
    for edge in edges:
        start = "" if edge.source == end else f"{'; ' if text else ''}{edge.source}"
        text += f"{start} -{_edge(edge)}-> {edge.target}"
        end = edge.target
    return text


def _edge(edge: EdgeView) -> str:
    return f"{edge.kind}[{edge.rule}]" if edge.rule and edge.rule != edge.kind else edge.kind
