"""One word of memory: which coherence orders the axioms allow for given rf and causality."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..graph import members
from ..program import Word
from .axioms import AxiomTable
from .relations import Relation
from .skeleton import Skeleton

if TYPE_CHECKING:
    from .candidates import Candidate

Choice = tuple[int, ...]
"""The coherence-maximal writes (events) of one coherence order."""


@dataclass
class View:
    """The execution as the axioms about one location see it; events are numbered locally."""

    rf: Relation
    co: Relation
    fr: Relation
    base: Relation
    cause: Relation
    strong: Relation
    po_loc: Relation


class Causes:
    """Base causality and causality order of a candidate, and of its words by their numbers."""

    def __init__(self, base: Relation, cause: Relation) -> None:
        self.base = base
        self.cause = cause
        self._local: dict[WordEvents, tuple[Relation, Relation]] = {}

    def of(self, word: WordEvents) -> tuple[Relation, Relation]:
        found = self._local.get(word)
        if found is None:
            found = self._local[word] = (word.local(self.base), word.local(self.cause))
        return found


class WordEvents:
    """The events of one word, numbered 0, 1, ... for small relations."""

    def __init__(self, skeleton: Skeleton, region: Word) -> None:
        reads, writes = skeleton.by_region[region]
        self.events = sorted({*reads, *writes})
        self.index = {event: number for number, event in enumerate(self.events)}
        self.reads = reads
        self.writes = [self.index[event] for event in writes]
        self.initial = self.index[skeleton.initial[region]]
        self.write_bits = sum(1 << number for number in self.writes)
        self.strong = self.local(skeleton.strong)
        self.po_loc = self.local(skeleton.po_loc)

    def local(self, relation: Relation) -> Relation:
        rows = []
        for event in self.events:
            row, found = relation.rows[event], 0
            for number, other in enumerate(self.events):
                if row >> other & 1:
                    found |= 1 << number
            rows.append(found)
        return Relation(rows)

    def pairs(self, sources: Choice) -> list[tuple[int, int]]:
        """Reads-from: write and read, by their local numbers."""
        return [(self.index[w], self.index[r]) for w, r in zip(sources, self.reads, strict=True)]

    def view(self, sources: Choice, co: Relation, base: Relation, cause: Relation) -> View:
        rf = Relation.of(len(self.events), self.pairs(sources))
        return View(rf, co, _from_reads(rf, co), base, cause, self.strong, self.po_loc)


class LocationJudge:
    """Answers for the words of one skeleton, each question once."""

    def __init__(self, skeleton: Skeleton, axioms: AxiomTable, in_time: Callable[[], None]) -> None:
        self.in_time = in_time
        self.axioms = axioms.about("location")
        self.coherence = "coherence" in axioms
        self.per_location = "sc-per-location" in axioms
        self.words = {region: WordEvents(skeleton, region) for region in skeleton.by_region}
        self._known: dict[tuple[object, ...], list[Choice]] = {}

    def choices(
        self, region: Word, rf: dict[int, int], causes: Causes, lasting: int, silent: int
    ) -> list[Choice]:
        """The maximal writes of every coherence order that breaks no axiom."""
        word = self.words[region]
        sources = tuple([rf[read] for read in word.reads])
        base, cause = causes.of(word)
        key = (region, sources, tuple(base.rows), tuple(cause.rows), lasting, silent)
        found = self._known.get(key)
        if found is None:
            judged = self._judge(word, sources, base, cause, lasting, silent)
            found = self._known[key] = list(judged)
        return found

    def some_order(self, candidate: Candidate) -> Relation:
        """One coherence order of all words that the axioms allow."""
        rows = [0] * candidate.setting.skeleton.size
        for word in self.words.values():
            sources = tuple(candidate.rf[read] for read in word.reads)
            co = next(iter(self.orders(word, sources, *candidate.causes.of(word))))
            for a, b in co.pairs():
                rows[word.events[a]] |= 1 << word.events[b]
        return Relation(rows)

    def _judge(
        self,
        word: WordEvents,
        sources: Choice,
        base: Relation,
        cause: Relation,
        lasting: int,
        silent: int,
    ) -> Iterator[Choice]:
        pairs = word.pairs(sources)
        for co in self.orders(word, sources, base, cause):
            if _last(word, pairs, co, lasting, silent):
                yield tuple(word.events[w] for w in word.writes if not co.rows[w])

    def orders(
        self, word: WordEvents, sources: Choice, base: Relation, cause: Relation
    ) -> Iterator[Relation]:
        """The coherence orders (of local numbers) that break no axiom."""
        read = word.strong & Relation.of(len(word.events), word.pairs(sources))
        forced = read.within(word.write_bits) if self.per_location else None
        for co in coherence_orders(word, cause, self.coherence, forced):
            self.in_time()
            view = word.view(sources, co, base, cause)
            demands = ((axiom.demand, axiom.relation(view)) for axiom in self.axioms)
            if all(obeys(demand, relation) for demand, relation in demands):
                yield co


def obeys(demand: str, relation: Relation) -> bool:
    """Is the relation what an axiom demands of it?"""
    return relation.irreflexive if demand == "irreflexive" else relation.acyclic


def _from_reads(rf: Relation, co: Relation) -> Relation:
    """A read to the writes after what it read; an atomic is not from-read to itself."""
    found = ~rf @ co
    return Relation([row & ~(1 << number) for number, row in enumerate(found.rows)])


def _last(
    word: WordEvents, pairs: list[tuple[int, int]], co: Relation, lasting: int, silent: int
) -> bool:
    """Do the reads that are repeated for ever see what stays: nothing but silent writes, which
    write back what they read, comes after it?"""
    return not any(
        lasting >> word.events[read] & 1
        and any(not silent >> word.events[w] & 1 for w in members(co.rows[write]))
        for write, read in pairs
    )


def coherence_orders(
    word: WordEvents, cause: Relation, by_causality: bool = True, forced: Relation | None = None
) -> Iterator[Relation]:
    """Coherence (§8.9.6): what causality orders, and morally strong writes one way or the other;
    the initial write first. Racing writes stay unrelated. `forced` pairs can only go one way: an
    atomic comes after what it reads."""
    rows = [0] * len(word.events)
    if by_causality:
        rows = list(cause.within(word.write_bits).rows)
    if forced is not None:
        rows = [a | b for a, b in zip(rows, forced.rows, strict=True)]
    rows[word.initial] |= word.write_bits & ~(1 << word.initial)
    base = Relation(rows).plus()
    open_pairs = [
        (a, b) for a in word.writes for b in word.writes if a < b and word.strong.rows[a] >> b & 1
    ]
    yield from _close(base, open_pairs)


def _close(co: Relation, pairs: list[tuple[int, int]]) -> Iterator[Relation]:
    """Decide each pair that is still open, one way and the other."""
    for number, (a, b) in enumerate(pairs):
        if co.rows[a] >> b & 1 or co.rows[b] >> a & 1:
            continue
        for one, other in ((a, b), (b, a)):
            rows = list(co.rows)
            rows[one] |= 1 << other
            yield from _close(Relation(rows).plus(), pairs[number + 1 :])
        return
    yield co
