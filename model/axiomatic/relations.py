"""Relations over a few numbered events, each row a bit set: the algebra of the axioms.

`a @ b` is composition, `~a` the inverse, `a.plus()` the transitive closure.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..graph import members


class Relation:
    """`rows[a]` holds the events that `a` is related to, as bits."""

    __slots__ = ("rows",)

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows

    @classmethod
    def empty(cls, size: int) -> Relation:
        return cls([0] * size)

    @classmethod
    def of(cls, size: int, pairs: Iterable[tuple[int, int]]) -> Relation:
        rows = [0] * size
        for a, b in pairs:
            rows[a] |= 1 << b
        return cls(rows)

    def __or__(self, other: Relation) -> Relation:
        return Relation([a | b for a, b in zip(self.rows, other.rows, strict=True)])

    def __and__(self, other: Relation) -> Relation:
        return Relation([a & b for a, b in zip(self.rows, other.rows, strict=True)])

    def __sub__(self, other: Relation) -> Relation:
        return Relation([a & ~b for a, b in zip(self.rows, other.rows, strict=True)])

    def __matmul__(self, other: Relation) -> Relation:
        rows = []
        for row in self.rows:
            reached = 0
            while row:
                low = row & -row
                reached |= other.rows[low.bit_length() - 1]
                row ^= low
            rows.append(reached)
        return Relation(rows)

    def __invert__(self) -> Relation:
        rows = [0] * len(self.rows)
        for a, row in enumerate(self.rows):
            for b in members(row):
                rows[b] |= 1 << a
        return Relation(rows)

    def plus(self) -> Relation:
        """The transitive closure (Warshall)."""
        rows = list(self.rows)
        for middle in range(len(rows)):
            through, bit = rows[middle], 1 << middle
            if through:
                for a, row in enumerate(rows):
                    if row & bit:
                        rows[a] = row | through
        return Relation(rows)

    def within(self, events: int) -> Relation:
        """Only pairs with both ends in a set."""
        return Relation([row & events if events >> a & 1 else 0 for a, row in enumerate(self.rows)])

    @property
    def irreflexive(self) -> bool:
        return not any(row >> a & 1 for a, row in enumerate(self.rows))

    @property
    def acyclic(self) -> bool:
        """No event reaches itself: peel off events without successors until none is left."""
        left = 0
        for a, row in enumerate(self.rows):
            if row:
                left |= 1 << a
        while left:
            done = 0
            for a in members(left):
                if not self.rows[a] & left:
                    done |= 1 << a
            if not done:
                return False
            left &= ~done
        return True

    def pairs(self) -> list[tuple[int, int]]:
        return [(a, b) for a, row in enumerate(self.rows) for b in members(row)]

    def cycle(self) -> list[int]:
        """A shortest cycle, as its events in order; empty when there is none."""
        best: list[int] = []
        for start in range(len(self.rows)):
            found = self._back_to(start)
            if found and (not best or len(found) < len(best)):
                best = found
        return best

    def _back_to(self, start: int) -> list[int]:
        came = {b: [start] for b in members(self.rows[start])}
        queue = list(came)
        for event in queue:
            if event == start:
                return came[event]
            for after in members(self.rows[event]):
                if after not in came:
                    came[after] = [*came[event], event]
                    queue.append(after)
        return []
