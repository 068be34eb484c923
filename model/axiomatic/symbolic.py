"""Relations whose pairs are formulas: the algebra of the axioms for the solver.

The same operators as `relations.Relation` has, on sparse matrices, and lazily: an axiom asks for
the diagonal of a composition, and nothing else of it is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

import z3

from .symbols import Formula, both, disjunction, either, implies, negation

Row = dict[int, Formula]


class Symbolic(ABC):
    """A relation over numbered events; a row has the events that one is perhaps related to."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}

    def row(self, event: int) -> Row:
        found = self._rows.get(event)
        if found is None:
            found = self._rows[event] = self.make(event)
        return found

    @abstractmethod
    def make(self, event: int) -> Row:
        """The row, when it is asked for the first time."""

    def at(self, a: int, b: int) -> Formula:
        return self.row(a).get(b, False)

    def __or__(self, other: Symbolic) -> Symbolic:
        return _Union(self, other)

    def __and__(self, other: Symbolic) -> Symbolic:
        return _Intersection(self, other)

    def __sub__(self, other: Symbolic) -> Symbolic:
        return _Difference(self, other)

    def __matmul__(self, other: Symbolic) -> Symbolic:
        return _Composition(self, other)


class Matrix(Symbolic):
    """A relation whose pairs are given."""

    def __init__(self, pairs: Mapping[tuple[int, int], Formula]) -> None:
        super().__init__()
        for (a, b), formula in pairs.items():
            if formula is not False:
                self._rows.setdefault(a, {})[b] = formula

    def make(self, event: int) -> Row:
        return {}

    def __invert__(self) -> Matrix:
        return Matrix({(b, a): formula for (a, b), formula in self.entries().items()})

    def entries(self) -> dict[tuple[int, int], Formula]:
        return {(a, b): formula for a, row in self._rows.items() for b, formula in row.items()}


class _Union(Symbolic):
    def __init__(self, one: Symbolic, other: Symbolic) -> None:
        super().__init__()
        self.one, self.other = one, other

    def make(self, event: int) -> Row:
        found = dict(self.one.row(event))
        for b, formula in self.other.row(event).items():
            found[b] = either(found[b], formula) if b in found else formula
        return found


class _Intersection(Symbolic):
    def __init__(self, one: Symbolic, other: Symbolic) -> None:
        super().__init__()
        self.one, self.other = one, other

    def make(self, event: int) -> Row:
        other = self.other.row(event)
        return {b: both(f, other[b]) for b, f in self.one.row(event).items() if b in other}


class _Difference(Symbolic):
    def __init__(self, one: Symbolic, other: Symbolic) -> None:
        super().__init__()
        self.one, self.other = one, other

    def make(self, event: int) -> Row:
        other = self.other.row(event)
        found = self.one.row(event).items()
        return {b: both(f, negation(other[b])) if b in other else f for b, f in found}


class _Composition(Symbolic):
    def __init__(self, one: Symbolic, other: Symbolic) -> None:
        super().__init__()
        self.one, self.other = one, other

    def make(self, event: int) -> Row:
        ways: dict[int, list[Formula]] = {}
        for middle, first in self.one.row(event).items():
            for b, second in self.other.row(middle).items():
                ways.setdefault(b, []).append(both(first, second))
        return {b: disjunction(each) for b, each in ways.items()}

    def at(self, a: int, b: int) -> Formula:
        if a in self._rows:
            return super().at(a, b)
        return disjunction(
            both(first, self.other.at(middle, b)) for middle, first in self.one.row(a).items()
        )


def demand(kind: str, relation: Symbolic, events: range, name: str) -> Iterator[Formula]:
    """The formulas of an axiom: the relation is "irreflexive" or "acyclic"."""
    if kind == "irreflexive":
        yield from (negation(relation.at(event, event)) for event in events)
    else:
        yield from _acyclic(relation, events, name)


def _acyclic(relation: Symbolic, events: range, name: str) -> Iterator[Formula]:
    """Ranks that grow along the pairs, among those events that can be on a cycle."""
    left = _cyclic(relation, events)
    rank = {event: z3.Int(f"{name} {event}") for event in left}
    for a in left:
        for b, formula in relation.row(a).items():
            if a == b:
                yield negation(formula)
            elif b in rank:
                yield implies(formula, rank[a] < rank[b])


def _cyclic(relation: Symbolic, events: range) -> list[int]:
    """All events without those that lead to no cycle, or that no cycle leads to."""
    left = set(events)
    while True:
        into = {b for a in left for b in relation.row(a) if b in left}
        kept = {a for a in left & into if any(b in left for b in relation.row(a))}
        if kept == left:
            return sorted(left)
        left = kept


def closed(pairs: dict[tuple[int, int], Formula], through: list[int]) -> Matrix:
    """The closure through some events (Warshall)."""
    found = dict(pairs)
    for middle in through:
        into = [(a, f) for (a, b), f in found.items() if b == middle]
        out = [(b, f) for (a, b), f in found.items() if a == middle]
        for a, first in into:
            for b, second in out:
                step = both(first, second)
                found[a, b] = either(found[a, b], step) if (a, b) in found else step
    return Matrix(found)
