"""All threads' paths, and which values a word can have: so that a loop ends when its flag is one
of few values.

First nothing is known of what reads give. If all that the paths write to a word are constants, or
come from such words, its reads give one of those, and the paths are walked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import z3

from ..instructions import Role
from .code import Act, Arithmetic, Branch, Move, Statement, Test
from .path import Path, read_variable
from .paths import Domains, Walker
from .symbols import Value

MOST_ROUNDS = 3
MOST_VALUES = 16
"""Of a word; one that takes more counts as unknown."""


def all_paths(test: Test, bound: int, in_time: Callable[[], None]) -> list[list[Path]]:
    """The paths of each thread. Errors: BudgetExceeded, and those of `in_time`."""
    constants = tuple(sorted(_constants(test)))
    domains: Domains = {}
    found = _walk(test, bound, domains, constants, in_time)
    if not any(_asks(each) for thread in test.threads for each in thread.code):
        return found
    for _ in range(MOST_ROUNDS):
        narrower = _Narrowing(test, found).domains()
        if narrower == domains:
            break
        domains = narrower
        found = _walk(test, bound, domains, constants, in_time)
    return found


def _walk(
    test: Test,
    bound: int,
    domains: Domains,
    constants: tuple[int, ...],
    in_time: Callable[[], None],
) -> list[list[Path]]:
    return [
        Walker(test, agent, bound, domains, constants, in_time).paths()
        for agent in range(len(test.threads))
    ]


def _asks(statement: Statement) -> bool:
    """Can a path fork here?"""
    return isinstance(statement, Branch) or (isinstance(statement, Act) and bool(statement.shapes))


def _constants(test: Test) -> Iterator[int]:
    """The numbers that occur in a test, each at least once."""
    yield 0
    for location in test.named.values():
        yield location.initial
    for thread in test.threads:
        operands = [value for _, value in thread.registers]
        for each in thread.code:
            if isinstance(each, Move):
                operands.append(each.value)
            elif isinstance(each, (Arithmetic, Branch)):
                operands += [each.left, each.right]
            else:
                operands += each.operands
        yield from (each for each in operands if isinstance(each, int))


class _Narrowing:
    """The values that the writes of some paths can write."""

    def __init__(self, test: Test, paths: list[list[Path]]) -> None:
        self.initial = {each.word: each.initial for each in test.named.values()}
        self.writes: dict[object, list[Value]] = {}
        self.word: dict[int, object] = {}
        for agent, each in enumerate(paths):
            for path in each:
                self._note(agent, path)

    def _note(self, agent: int, path: Path) -> None:
        for step, taken in enumerate(path.steps):
            read = [a.region.word for a in taken.instruction.accesses if a.role in _READS]
            for index, region in enumerate(read):
                self.word[read_variable(agent, step, index).get_id()] = region
            written = [a.region.word for a in taken.instruction.accesses if a.role in _WRITES]
            for region, value in zip(written, taken.writes, strict=True):
                self.writes.setdefault(region, []).append(value)

    def domains(self) -> Domains:
        """The least sets of values that are closed under all writes."""
        found: dict[object, set[int] | None] = {
            region: {value} for region, value in self.initial.items()
        }
        changed = True
        while changed:
            changed = False
            for region, values in self.writes.items():
                changed |= self._grow(found, region, values)
        return {region: None if v is None else frozenset(v) for region, v in found.items()}

    def _grow(
        self, found: dict[object, set[int] | None], region: object, values: list[Value]
    ) -> bool:
        known = found.get(region)
        if known is None:
            return False
        new = set(known)
        for value in values:
            some = self._values(found, value)
            if some is None or len(new | some) > MOST_VALUES:
                found[region] = None
                return True
            new |= some
        found[region] = new
        return new != known

    def _values(self, found: dict[object, set[int] | None], value: Value) -> set[int] | None:
        if isinstance(value, int):
            return {value}
        return self._of_term(found, value)

    def _of_term(self, found: dict[object, set[int] | None], term: Any) -> set[int] | None:
        if z3.is_int_value(term):
            return {term.as_long()}
        if z3.is_app_of(term, z3.Z3_OP_ITE):
            one, other = (self._of_term(found, term.arg(n)) for n in (1, 2))
            return None if one is None or other is None else one | other
        word = self.word.get(term.get_id())
        return None if word is None else found.get(word)


_READS = (Role.READ, Role.ATOMIC)
_WRITES = (Role.WRITE, Role.ATOMIC)
