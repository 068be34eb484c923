"""The consistent executions of one skeleton as a formula (PTX ISA §8.9, §8.10).

There is a variable for each value, for each pair of reads-from and coherence, and for the order of
each two fences.sc. It is enough to demand that the relations contain what they must: axioms forbid,
so more pairs only forbid more, and leave fewer writes that are coherence-maximal. (The `-` of
sc-per-location speaks of morally strong writes, whose order is exact.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import z3

from ..graph import members
from ..program import Word
from .axioms import AxiomTable
from .code import Act, Test
from .path import read_variable
from .settings import Setting
from .symbolic import Matrix, Symbolic, closed, demand
from .symbols import Formula, Value, both, compared, conjunction, disjunction, either, implies
from .symbols import negation as no

Pairs = dict[tuple[int, int], Formula]


@dataclass
class _Execution:
    """What the axioms about one location may ask."""

    rf: Symbolic
    co: Symbolic
    fr: Symbolic
    base: Symbolic
    cause: Symbolic
    strong: Symbolic
    po_loc: Symbolic


@dataclass
class _Fences:
    """What the axioms about fences may ask."""

    sc: Symbolic
    sc_cause: Symbolic


@dataclass
class _Order:
    """What the axioms about dependencies may ask."""

    rf: Symbolic
    dep: Symbolic


def speculated(test: Test) -> set[int]:
    """The numbers that a test stores or begins with."""
    initial = {location.initial for location in test.named.values()}
    acts = (each for thread in test.threads for each in thread.code if isinstance(each, Act))
    return initial | {n for act in acts for n in act.operands if isinstance(n, int)}


class Execution:
    """The formula of one skeleton, without what a path says of it."""

    def __init__(self, setting: Setting, axioms: AxiomTable) -> None:
        self.setting = setting
        self.skeleton = setting.skeleton
        self.axioms = axioms
        self.events = range(self.skeleton.size)
        self.ways, self.fence_ways = setting.order.needs()
        names = {axiom.name for axiom in axioms.axioms}
        self.causal, self.coherent = "causality" in names, "coherence" in names

    def formulas(self) -> Iterator[Formula]:
        """Everything but values of writes and dependencies."""
        yield from self._reads()
        yield from self._coherence()
        yield from self._fence_order()
        view = _Execution(
            Matrix(self.rf), Matrix(self.co), Matrix(self.fr), Matrix(self.base),
            Matrix(self.cause), self.strong, self.po_loc,
        )  # fmt: skip
        yield from self._obey("location", view)

    def thin_air(self, dependent: Pairs) -> Iterator[Formula]:
        """The axioms about dependencies, which depend on the paths."""
        dep = Matrix(dependent)
        yield from self._obey("order", _Order(Matrix(self.rf), dep))
        if not self.axioms.about("order"):
            derived = Matrix(self._derived()) @ dep
            yield from demand("acyclic", derived, self.events, "derived")

    def _derived(self) -> Pairs:
        """Reads-from of values that are no number of the test: without the axioms, only those
        numbers come out of nothing, so that the states stay few."""
        numbers = sorted(speculated(self.skeleton.test))
        guessed = {
            read: disjunction(compared("eq", value, each) for each in numbers)
            for read, value in self.read.items()
        }
        return {(w, read): both(chosen, no(guessed[read])) for (w, read), chosen in self.rf.items()}

    def _obey(self, about: str, view: Any) -> Iterator[Formula]:
        for axiom in self.axioms.about(about):
            yield from demand(axiom.demand, axiom.relation(view), self.events, axiom.name)

    # --- values and reads-from ---------------------------------------------------------------

    @cached_property
    def written(self) -> dict[int, Value]:
        """What each write writes: a variable, or the initial value."""
        skeleton = self.skeleton
        found: dict[int, Value] = {
            skeleton.initial[word.word]: word.initial for word in skeleton.words
        }
        for _, writes in skeleton.events_of.values():
            found.update((write, z3.Int(f"write {write}")) for write in writes)
        return found

    @cached_property
    def read(self) -> dict[int, Value]:
        """The variable of each read: that of the paths."""
        return {
            read: read_variable(where.agent, where.step, index)
            for where, (reads, _) in self.skeleton.events_of.items()
            for index, read in enumerate(reads)
        }

    @cached_property
    def rf(self) -> Pairs:
        return {
            (write, read): z3.Bool(f"rf {write} {read}")
            for reads, writes in self.skeleton.by_region.values()
            for read in reads
            for write in writes
            if write != read and not (self.causal and self._always(read, write))
        }

    def _reads(self) -> Iterator[Formula]:
        for reads, writes in self.skeleton.by_region.values():
            for read in reads:
                yield disjunction(self.rf.get((w, read), False) for w in writes)
        for (write, read), chosen in self.rf.items():
            yield implies(chosen, compared("eq", self.read[read], self.written[write]))

    # --- causality ---------------------------------------------------------------------------

    @cached_property
    def strong(self) -> Matrix:
        return Matrix(dict.fromkeys(self.skeleton.strong.pairs(), True))

    @cached_property
    def po_loc(self) -> Matrix:
        return Matrix(dict.fromkeys(self.skeleton.po_loc.pairs(), True))

    @cached_property
    def observed(self) -> Matrix:
        """Observation (§8.9.2): morally strong reads-from, and on through atomics."""
        has = self.skeleton.context.has
        if not has("observation"):
            return Matrix({})
        direct = {pair: chosen for pair, chosen in self.rf.items() if self.strong.at(*pair)}
        if not has("observation-through-atomics"):
            return Matrix(direct)
        both_roles = {write for write, _ in direct} & {read for _, read in direct}
        return closed(direct, sorted(both_roles))

    @cached_property
    def sc(self) -> Pairs:
        """The order of each two fences.sc that have one."""
        found: Pairs = {}
        for a, b in self.skeleton.fence_pairs:
            first = z3.Bool(f"sc {a} {b}")
            found[a, b], found[b, a] = first, no(first)
        return found

    @cached_property
    def tied(self) -> list[Formula]:
        """For each tie, whether it holds."""
        return [
            self.observed.at(tie.write, tie.read) if tie.fences is None else self.sc[tie.fences]
            for tie in self.skeleton.ties
        ]

    def _any(self, ways: list[frozenset[int]]) -> Formula:
        return disjunction(conjunction(self.tied[n] for n in sorted(way)) for way in ways)

    def _always(self, a: int, b: int) -> bool:
        """Is access `a` before access (or initial write) `b` whatever else is chosen?"""
        return b < len(self.ways) and frozenset() in self.ways[b].get(a, [])

    def before(self, a: int, b: int) -> Formula:
        """Base causality (§8.9.5); initial writes come before everything (§8.2.6)."""
        accesses = len(self.skeleton.accesses)
        if b >= accesses:
            return False
        if a >= accesses:
            return True
        if (a, b) not in self._before:
            self._before[a, b] = self._any(self.ways[b].get(a, []))
        return self._before[a, b]

    @cached_property
    def _before(self) -> Pairs:
        return {}

    def causes(self, a: int, b: int) -> Formula:
        """Causality order (§8.9.5): base causality, or observation and then base causality."""
        seen = self.observed.row(a).items()
        return either(
            self.before(a, b), *(both(first, self.before(read, b)) for read, first in seen)
        )

    def _same_word(self) -> Iterator[tuple[int, int]]:
        for reads, writes in self.skeleton.by_region.values():
            every = sorted({*reads, *writes})
            yield from ((a, b) for a in every for b in every)

    @cached_property
    def base(self) -> Pairs:
        return {(a, b): self.before(a, b) for a, b in self._same_word() if a != b}

    @cached_property
    def cause(self) -> Pairs:
        return {(a, b): self.causes(a, b) for a, b in self._same_word()}

    # --- coherence ---------------------------------------------------------------------------

    @cached_property
    def co(self) -> Pairs:
        found: Pairs = {}
        for region, (_, writes) in self.skeleton.by_region.items():
            initial = self.skeleton.initial[region]
            for b in writes:
                if b != initial:
                    found[initial, b] = True
                    found.update(((a, b), z3.Bool(f"co {a} {b}")) for a in writes if a != initial)
        return found

    @cached_property
    def fr(self) -> Pairs:
        ways: dict[tuple[int, int], list[Formula]] = {}
        for (write, read), chosen in self.rf.items():
            for after in self.after(write):
                if after != read:
                    ways.setdefault((read, after), []).append(both(chosen, self.co[write, after]))
        return {pair: disjunction(each) for pair, each in ways.items()}

    def after(self, write: int) -> list[int]:
        """The writes that can be coherence-after a write."""
        _, writes = self.skeleton.by_region[self.skeleton.region(write)]
        return [other for other in writes if (write, other) in self.co]

    def _coherence(self) -> Iterator[Formula]:
        """Coherence (§8.9.6): what causality orders, and morally strong writes one way or the
        other; transitive."""
        for (a, b), related in self.co.items():
            yield implies(self.cause[a, b], related)
            if a < b and self.strong.at(a, b):
                yield either(related, self.co[b, a])
            for c in self.after(b):
                if a != b and b != c:
                    yield implies(both(related, self.co[b, c]), self.co[a, c])

    def maximal(self, write: int) -> Formula:
        """Is no write coherence-after this one?"""
        return conjunction(no(self.co[write, other]) for other in self.after(write))

    def last(self, region: Word, value: Value) -> Formula:
        """Can the value be the final one (§8.9.6)?"""
        _, writes = self.skeleton.by_region[region]
        return disjunction(
            both(compared("eq", value, self.written[write]), self.maximal(write))
            for write in writes
        )

    def lasting(self, read: int, silent: set[int]) -> Iterator[Formula]:
        """A read that is repeated for ever sees what stays: after it come silent writes only."""
        _, writes = self.skeleton.by_region[self.skeleton.region(read)]
        for write in writes:
            if (write, read) in self.rf:
                later = (o for o in self.after(write) if o not in silent)
                stays = conjunction(no(self.co[write, other]) for other in later)
                yield implies(self.rf[write, read], stays)

    # --- fences and races --------------------------------------------------------------------

    def _fence_order(self) -> Iterator[Formula]:
        fences = range(len(self.skeleton.fences))
        if not fences:
            return
        sc = Matrix(self.sc)
        order = sc | Matrix(dict.fromkeys(self.skeleton.fence_po, True))
        yield from demand("acyclic", order, fences, "fence")
        cause = {(a, b): self._any(ways) for b in fences for a, ways in self.fence_ways[b].items()}
        yield from self._obey("fences", _Fences(sc, Matrix(cause)))

    @cached_property
    def racing(self) -> dict[tuple[int, int], Any]:
        """Conflicting accesses that are not morally strong (§8.7.1), and whether they race."""
        found = {}
        for a in range(len(self.skeleton.accesses)):
            for b in members(self.skeleton.conflicts[a] & ~self.skeleton.strong.rows[a]):
                if a < b:
                    racing = both(no(self.causes(a, b)), no(self.causes(b, a)))
                    if racing is not False:
                        found[a, b] = racing
        return found
