"""Why an outcome is forbidden: the candidate that comes nearest, and the cycle that it breaks.

Candidates that satisfy the condition are made without regard to the axioms; the one that breaks
the fewest is shown, with the first axiom it breaks and the edges that contradict it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from ..graph import members
from ..instructions import Pool
from ..program import BudgetExceeded, Word
from .axioms import Axiom
from .candidates import Candidate, Candidates, FenceView, OrderView
from .code import Final, State, Test, holds
from .combos import choices
from .enumerate import Query
from .location import View, WordEvents, coherence_orders, obeys
from .outcome import EdgeView, Picture
from .picture import Letters, execution_edges, used
from .relations import Relation
from .settings import Settings
from .traces import Trace, final_registers

MOST_LOOKED_AT = 1_500
"""Candidates that are looked at in search of the nearest."""


def forbidden(query: Query, traces: list[list[Trace]], settings: Settings) -> Picture | None:
    """A candidate whose outcome is the condition's (of a forall, its negation), drawn with what
    forbids it; None when no combination of reads gives that outcome."""
    nearest: tuple[int, Attempt] | None = None
    try:
        for attempt in islice(_attempts(query, traces, settings), MOST_LOOKED_AT):
            query.in_time()
            broken = len(attempt.broken)
            if broken and (nearest is None or broken < nearest[0]):
                nearest = (broken, attempt)
                if broken == 1:
                    break
    except BudgetExceeded:
        pass  # the nearest so far will do
    return None if nearest is None else nearest[1].picture()


def _attempts(query: Query, traces: list[list[Trace]], settings: Settings) -> Iterator[Attempt]:
    finished = [[t for t in each if t.repeats < 0 and not t.cut] for each in traces]
    candidates = Candidates(query.axioms)
    for setting, chosen in choices(query.test, finished, settings, prune=False):
        registers = final_registers(query.test, chosen)
        if setting.stuck or not _possible(query.test, registers):
            continue
        for candidate, dep in candidates.every(setting, chosen):
            for sc in candidates.fence_orders(setting):
                attempt = Attempt(query, replace(candidate, sc=sc), dep, registers)
                if attempt.satisfies:
                    yield attempt


def _wanted(test: Test, state: State) -> bool:
    return holds(test.condition, state) is (test.quantifier != "forall") and holds(
        test.filter, state
    )


def _possible(test: Test, registers: State) -> bool:
    """Can these registers satisfy the condition, whatever is in memory?"""
    if any(isinstance(each, Final) for each in test.observed):
        return True
    return _wanted(test, registers)


class Attempt:
    """One candidate with a coherence order for each word, and the axioms that it breaks."""

    def __init__(self, query: Query, candidate: Candidate, dep: Relation, state: State) -> None:
        self.query = query
        self.candidate = candidate
        self.dep = dep
        self.skeleton = candidate.setting.skeleton
        candidates = Candidates(query.axioms)
        candidates.order(candidate)
        self.words = candidates.judge(candidate).words
        self.co: dict[Word, Relation] = {}
        self.state = dict(state)
        self.satisfies = self._settle()

    def _settle(self) -> bool:
        """Chooses coherence orders that give the condition's outcome, with few axioms broken."""
        test = self.query.test
        finals = {e.location: e for e in test.observed if isinstance(e, Final)}
        regions = {test.named[name].word: final for name, final in finals.items()}
        for region, word in self.words.items():
            best: tuple[int, int, Relation] | None = None
            for co in coherence_orders(word, self.candidate.causes.of(word)[1]):
                maximal = [w for w in word.writes if not co.rows[w]] or word.writes
                for last in maximal:
                    value = self.candidate.values[word.events[last]]
                    if region in regions and not self._agrees(regions[region], value):
                        continue
                    count = len(self._location(word, co))
                    if best is None or count < best[0]:
                        best = (count, value, co)
            if best is None:
                return False
            self.co[region] = best[2]
            if region in regions:
                self.state[regions[region]] = best[1]
        return _wanted(test, self.state)

    def _agrees(self, final: Final, value: int) -> bool:
        """With one location in the condition its value decides; with more, the last ones do."""
        known = {**self.state, final: value}
        if any(each not in known for each in self.query.test.observed):
            return True
        return _wanted(self.query.test, known)

    # --- what is broken ----------------------------------------------------------------------

    def _location(self, word: WordEvents, co: Relation) -> list[tuple[Axiom, Relation]]:
        view = self._view(word, co)
        judged = [(axiom, axiom.relation(view)) for axiom in self.query.axioms.about("location")]
        return [(axiom, found) for axiom, found in judged if not obeys(axiom.demand, found)]

    def _view(self, word: WordEvents, co: Relation) -> View:
        sources = tuple(self.candidate.rf[read] for read in word.reads)
        base, cause = self.candidate.causes.of(word)
        return word.view(sources, co, base, cause)

    @property
    def broken(self) -> list[tuple[Axiom, list[EdgeView]]]:
        """The axioms that the candidate breaks, each with a cycle of edges."""
        letters = Letters(self.candidate)
        found: list[tuple[Axiom, list[EdgeView]]] = []
        for axiom in self.query.axioms.about("order"):
            relation = axiom.relation(OrderView(self.candidate.rf_relation, self.dep))
            if not obeys(axiom.demand, relation):
                found.append((axiom, self._thin_air(letters, relation.cycle())))
        for axiom in self.query.axioms.about("fences"):
            edges = self._fences(letters, axiom)
            if edges:
                found.append((axiom, edges))
        for region, word in self.words.items():
            for axiom, relation in self._location(word, self.co[region]):
                found.append((axiom, self._cycle(letters, word, self.co[region], axiom, relation)))
        return found

    def _thin_air(self, letters: Letters, writes: list[int]) -> list[EdgeView]:
        """w -rf-> r -dep-> w' ..."""
        edges = []
        for write, after in zip(writes, [*writes[1:], *writes[:1]], strict=True):
            reads = members(self.candidate.rf_relation.rows[write])
            read = next(r for r in reads if self.dep.rows[r] >> after & 1)
            name = letters.of_event
            edges.append(EdgeView("rf", name[write], name[read]))
            if name[read] != name[after]:
                edges.append(EdgeView("po", name[read], name[after], "dependency"))
        return edges

    def _fences(self, letters: Letters, axiom: Axiom) -> list[EdgeView]:
        skeleton, candidate = self.skeleton, self.candidate
        if not skeleton.fences:
            return []
        before = candidate.setting.order.given(candidate.ties)
        sc = Relation.of(len(skeleton.fences), candidate.sc)
        cause = ~Relation(list(before.fences))
        if obeys(axiom.demand, axiom.relation(FenceView(sc, cause))):
            return []
        a, b = next((a, b) for a, b in sc.pairs() if cause.rows[b] >> a & 1)
        names = [letters.of_step[skeleton.fences[n].where] for n in (a, b)]
        return [
            EdgeView("sync", names[0], names[1], "fence.sc order"),
            EdgeView("sync", names[1], names[0], "base causality"),
        ]

    def _cycle(
        self, letters: Letters, word: WordEvents, co: Relation, axiom: Axiom, relation: Relation
    ) -> list[EdgeView]:
        view = self._view(word, co)
        draw = Drawing(self, letters, word)
        if axiom.name == "causality":
            return draw.two_steps(((view.rf, "rf", view.base), (view.fr, "fr", view.cause)))
        if axiom.name == "atomicity":
            return draw.two_steps(((view.strong & view.fr, "fr", co),), "co")
        if axiom.name == "coherence":
            return draw.round_trip(coherence_steps(view.cause, word), relation)
        strong = view.strong
        kinds = (
            ("po", word.po_loc), ("rf", strong & view.rf), ("co", strong & co),
            ("fr", strong & view.fr),
        )  # fmt: skip
        return draw.round_trip(kinds, relation)

    def picture(self) -> Picture:
        """The candidate, with the first axiom that it breaks."""
        axiom, cycle = self.broken[0]
        letters = Letters(self.candidate)
        rows = [0] * self.skeleton.size
        for region, co in self.co.items():
            word = self.words[region]
            for a, b in co.pairs():
                rows[word.events[a]] |= 1 << word.events[b]
        edges = execution_edges(letters, Relation(rows))
        state = tuple((str(each), value) for each, value in self.state.items())
        return Picture(
            used(letters, (*edges, *cycle)), edges, state, axiom.name, axiom.section, tuple(cycle)
        )


Kinds = tuple[tuple[str, Relation], ...]


def coherence_steps(cause: Relation, word: WordEvents) -> Kinds:
    """What makes coherence order: causality, moral strength, and the initial write first."""
    first = Relation.of(len(word.events), [(word.initial, w) for w in word.writes])
    return (("sync", cause.within(word.write_bits)), ("co", word.strong), ("co", first))


class Drawing:
    """Edges between local numbers of a word, drawn with letters."""

    def __init__(self, attempt: Attempt, letters: Letters, word: WordEvents) -> None:
        self.attempt = attempt
        self.letters = letters
        self.word = word

    def two_steps(
        self, ways: tuple[tuple[Relation, str, Relation], ...], back: str = ""
    ) -> list[EdgeView]:
        """a -kind-> b, and b before a."""
        for there, kind, again in ways:
            for a, b in there.pairs():
                if again.rows[b] >> a & 1:
                    return [self._edge(kind, a, b), *self._before(b, a, back)]
        return []

    def round_trip(self, kinds: Kinds, relation: Relation) -> list[EdgeView]:
        """The shortest cycle, each step by the first kind that has it."""
        found: list[EdgeView] = []
        cycle = relation.cycle()
        for a, b in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
            kind = next((kind for kind, each in kinds if each.rows[a] >> b & 1), "co")
            found += self._before(a, b, "" if kind == "sync" else kind)
        return found

    def _edge(self, kind: str, a: int, b: int, rule: str = "") -> EdgeView:
        name, events = self.letters.of_event, self.word.events
        return EdgeView(kind, name[events[a]], name[events[b]], rule)

    def _before(self, a: int, b: int, kind: str) -> list[EdgeView]:
        if kind:
            return [self._edge(kind, a, b)]
        return Chain(self.attempt, self.letters).edges(self.word.events[a], self.word.events[b])


class Chain:
    """Causality between two events as a chain: observation, program order, what synchronizes."""

    def __init__(self, attempt: Attempt, letters: Letters) -> None:
        self.candidate = attempt.candidate
        self.skeleton = attempt.skeleton
        self.letters = letters

    def edges(self, a: int, b: int) -> list[EdgeView]:
        name = self.letters.of_event
        if a >= len(self.skeleton.accesses):
            return [EdgeView("co", name[a], name[b], "initial value")]
        if self.candidate.causes.base.rows[a] >> b & 1:
            return self._base(a, b)
        for middle in members(self.candidate.observed.rows[a]):
            if self.candidate.causes.base.rows[middle] >> b & 1:
                seen = EdgeView("rf", name[a], name[middle], "observation")
                return [seen, *self._base(middle, b)]
        return [EdgeView("sync", name[a], name[b], "causality")]

    def _base(self, a: int, b: int) -> list[EdgeView]:
        one, other = self.skeleton.accesses[a], self.skeleton.accesses[b]
        name, order = self.letters.of_event, self.candidate.setting.order
        ties = self.candidate.ties
        for tie in sorted(ties):  # the fewest ties that still order the pair
            fewer = ties - {tie}
            if order.given(fewer).accesses[b] >> a & 1:
                ties = fewer
        if not ties:
            if one.where.agent != other.where.agent:
                return [EdgeView("sync", name[a], name[b], self._rules(a, b))]
            if one.pool is Pool.GENERIC and other.pool is Pool.GENERIC:
                return [EdgeView("po", name[a], name[b])]
            return [EdgeView("async", name[a], name[b], self._rules(a, b))]
        return self._through(name[a], name[b], sorted(ties))

    def _through(self, first: str, last: str, ties: list[int]) -> list[EdgeView]:
        """a -po-> release -sync-> acquire -po-> b, with the ties in an order that fits."""
        nodes = {node: where for where, node in self.skeleton.graph.issue_of.items()}
        step = self.letters.of_step
        hops = [
            (step[nodes[tie.source]], step[nodes[tie.target]], tie.label.rule)
            for tie in (self.skeleton.ties[number] for number in ties)
        ]
        threads = {view.letter: view.thread for view in self.letters.views}
        edges, at = [], first
        while hops:
            hop = next((h for h in hops if threads[h[0]] == threads[at]), hops[0])
            hops.remove(hop)
            if at != hop[0]:
                edges.append(self._within(at, hop[0]))
            edges.append(EdgeView("sync", *hop))
            at = hop[1]
        if at != last:
            edges.append(self._within(at, last))
        return edges

    def _within(self, a: str, b: str) -> EdgeView:
        """Inside a thread: program order, or what orders an asynchronous operation's access."""
        steps = self.letters.of_step.values()
        return EdgeView("po" if a in steps and b in steps else "async", a, b)

    def _rules(self, a: int, b: int) -> str:
        """The rules on a path of the event graph."""
        order = self.candidate.setting.order
        path = order.path(self.skeleton.accesses[a], self.skeleton.accesses[b])
        if path is None:
            return "base causality"
        names = [hop.rule for hop in path.hops] + ([path.last] if path.last else [])
        return ", ".join(dict.fromkeys(name for name in names if name != "po"))
