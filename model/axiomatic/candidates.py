"""Candidate executions: what each read reads from, the order of fence.sc, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from ..graph import members
from ..program import Word
from .axioms import AxiomTable
from .dependencies import dependencies
from .location import Causes, LocationJudge, obeys
from .relations import Relation
from .settings import Setting
from .traces import Trace


@dataclass
class Candidate:
    """Choices made so far: what each read reads from (by read), and the order of fence.sc."""

    setting: Setting
    traces: tuple[Trace, ...]
    rf: dict[int, int]
    rf_relation: Relation
    observed: Relation
    values: dict[int, int]
    """What each write writes, the initial ones included."""
    sc: frozenset[tuple[int, int]] = frozenset()
    ties: frozenset[int] = frozenset()
    causes: Causes = field(default_factory=lambda: Causes(Relation([]), Relation([])))


class Candidates:
    """Makes candidates by the axioms of a table. `count` is called for each choice of rf."""

    def __init__(
        self,
        axioms: AxiomTable,
        count: Callable[[], None] = lambda: None,
        in_time: Callable[[], None] = lambda: None,
    ) -> None:
        self.axioms = axioms
        self.count = count
        self.in_time = in_time
        self.thin_air = axioms.about("order")
        self.prune = "causality" in axioms and "coherence" in axioms
        self.judges: dict[int, LocationJudge] = {}
        self._causes: dict[tuple[object, ...], Causes] = {}

    def of(self, setting: Setting, traces: tuple[Trace, ...]) -> Iterator[Candidate]:
        """All choices of rf and of the order of fences that break no axiom about those."""
        for candidate, dep in self.every(setting, traces, self.prune):
            view = OrderView(candidate.rf_relation, dep)
            if all(obeys(a.demand, a.relation(view)) for a in self.thin_air):
                for sc in self.fence_orders(setting):
                    chosen = replace(candidate, sc=sc)
                    if self.order(chosen):
                        yield chosen

    def every(
        self, setting: Setting, traces: tuple[Trace, ...], prune: bool = False
    ) -> Iterator[tuple[Candidate, Relation]]:
        """All choices of rf, with the dependencies; with `prune` not those that break causality
        whatever else is chosen."""
        skeleton = setting.skeleton
        values, reads = _values(setting, traces)
        dep = dependencies(setting, traces)
        visible = setting.sources(prune)
        sources = [[w for w in visible[r] if values[w] == v] for r, v in reads.items()]
        for chosen in product(*sources):
            self.count()
            rf = dict(zip(reads, chosen, strict=True))
            relation = Relation.of(skeleton.size, ((w, r) for r, w in rf.items()))
            observed = observation(setting, relation)
            yield Candidate(setting, traces, rf, relation, observed, values), dep

    def fence_orders(self, setting: Setting) -> Iterator[frozenset[tuple[int, int]]]:
        """All total orders of morally strong fences, consistent with program order."""
        pairs, po = setting.skeleton.fence_pairs, setting.skeleton.fence_po
        size = len(setting.skeleton.fences)
        for flips in product((False, True), repeat=len(pairs)):
            order = [(b, a) if flip else (a, b) for (a, b), flip in zip(pairs, flips, strict=True)]
            if not pairs or Relation.of(size, [*order, *po]).acyclic:
                yield frozenset(order)

    def order(self, candidate: Candidate) -> bool:
        """Sets the causality of the candidate; False when the order of fences contradicts it."""
        setting = candidate.setting
        skeleton = setting.skeleton
        candidate.ties = frozenset(
            number
            for number, tie in enumerate(skeleton.ties)
            if (
                tie.fences in candidate.sc
                if tie.fences is not None
                else candidate.observed.rows[tie.write] >> tie.read & 1
            )
        )
        key = (id(setting), candidate.ties, tuple(candidate.observed.rows))
        causes = self._causes.get(key)
        if causes is None:
            before = setting.order.given(candidate.ties).accesses
            causes = self._causes[key] = Causes(*causality(setting, before, candidate.observed))
        candidate.causes = causes
        if not skeleton.fences:
            return True
        fences = setting.order.given(candidate.ties).fences
        view = FenceView(Relation.of(len(skeleton.fences), candidate.sc), ~Relation(list(fences)))
        return all(obeys(a.demand, a.relation(view)) for a in self.axioms.about("fences"))

    def locations(
        self, candidate: Candidate, lasting: int = 0, silent: int = 0
    ) -> dict[Word, list[tuple[int, ...]]] | None:
        """For each word the coherence-maximal writes of each coherence order that the axioms
        allow; None when some word has none. `lasting` reads must read a maximal write, `silent`
        writes apart."""
        judge = self.judge(candidate)
        found = {}
        for region in candidate.setting.skeleton.by_region:
            choices = judge.choices(region, candidate.rf, candidate.causes, lasting, silent)
            if not choices:
                return None
            found[region] = choices
        return found

    def judge(self, candidate: Candidate) -> LocationJudge:
        skeleton = candidate.setting.skeleton
        judge = self.judges.get(id(skeleton))
        if judge is None:
            judge = self.judges[id(skeleton)] = LocationJudge(skeleton, self.axioms, self.in_time)
        return judge


# --- pieces of a candidate ------------------------------------------------------------------------


@dataclass
class OrderView:
    """What axioms about order may ask."""

    rf: Relation
    dep: Relation


@dataclass
class FenceView:
    """What axioms about fences may ask."""

    sc: Relation
    sc_cause: Relation


def _values(setting: Setting, traces: Sequence[Trace]) -> tuple[dict[int, int], dict[int, int]]:
    """What each write writes, and what each read reads, by event."""
    skeleton = setting.skeleton
    writes = {skeleton.initial[word.word]: word.initial for word in skeleton.words}
    reads: dict[int, int] = {}
    for where, (read, write) in skeleton.events_of.items():
        done = traces[where.agent].steps[where.step]
        reads.update(zip(read, done.reads, strict=True))
        writes.update(zip(write, done.writes, strict=True))
    return writes, reads


def observation(setting: Setting, rf: Relation) -> Relation:
    """Observation order (§8.9.2): morally strong reads-from, and on through atomics."""
    has = setting.skeleton.context.has
    if not has("observation"):
        return Relation.empty(setting.skeleton.size)
    observed = rf & setting.skeleton.strong
    return observed.plus() if has("observation-through-atomics") else observed


def causality(
    setting: Setting, before: tuple[int, ...], observed: Relation
) -> tuple[Relation, Relation]:
    """Base causality and causality order (§8.9.5): base causality, or observation and then base
    causality. Initial writes come before everything (§8.2.6)."""
    skeleton = setting.skeleton
    observers = (~observed).rows
    first = len(skeleton.accesses)
    everything = (1 << first) - 1
    base, cause = [0] * first, [0] * first
    base += [everything] * len(skeleton.words)
    cause += [everything] * len(skeleton.words)
    for event, earlier in enumerate(before):
        bit, every = 1 << event, earlier
        for source in members(earlier):
            base[source] |= bit
            every |= observers[source]
        for source in members(every):
            cause[source] |= bit
    return Relation(base), Relation(cause)
