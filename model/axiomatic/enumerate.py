"""The explicit engine: every candidate execution of a test, judged by the axioms.

Traces, then what each read reads from, then the order of fence.sc, then the coherence order of
each location by itself (the axioms that mention it speak of one location). Candidates that break
causality whatever else is chosen are not made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from ..composition import ROWS, Row
from ..graph import members
from ..program import BudgetExceeded, Region, TimeLimit
from ..readings import Reading
from ..rules import TABLE, RuleTable
from .axioms import AXIOMS, AxiomTable
from .code import Condition, Final, RegisterAt, State, Test, holds, quantities
from .combos import combinations
from .dependencies import dependencies
from .location import LocationJudge
from .outcome import Outcome
from .races import races_of
from .relations import Relation
from .settings import Setting, Settings
from .traces import Threads, Trace

MOST_CANDIDATES = 400_000
CLOCK = 64
"""Candidates between two looks at the clock."""


@dataclass
class Query:
    """A test, the tables it is judged by, and the limits."""

    test: Test
    reading: Reading
    bound: int = 4
    deadline: float | None = None
    table: RuleTable = TABLE
    rows: tuple[Row, ...] = ROWS
    axioms: AxiomTable = AXIOMS
    candidates: int = 0

    def count(self) -> None:
        """Errors: BudgetExceeded, TimeLimit."""
        self.candidates += 1
        if self.candidates > MOST_CANDIDATES:
            raise BudgetExceeded(f"more than {MOST_CANDIDATES} candidate executions")
        if self.candidates % CLOCK == 0:
            self.in_time()

    def in_time(self) -> None:
        """Errors: TimeLimit."""
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TimeLimit("the time limit was reached")


@dataclass
class Candidate:
    """Choices made so far: what each read reads from (by read), and the order of fence.sc."""

    setting: Setting
    traces: tuple[Trace, ...]
    rf: dict[int, int]
    sc: frozenset[tuple[int, int]] = frozenset()
    base: Relation = field(default_factory=lambda: Relation([]))
    cause: Relation = field(default_factory=lambda: Relation([]))
    observed: Relation = field(default_factory=lambda: Relation([]))
    values: dict[int, int] = field(default_factory=dict)
    """What each write writes, the initial ones included."""


def enumerate_executions(query: Query, outcome: Outcome) -> None:
    """Fills `outcome` with states and races, or with hangs (property "termination")."""
    Enumerator(query, outcome).run()


class Enumerator:
    """Walks all candidates of one query."""

    def __init__(self, query: Query, outcome: Outcome) -> None:
        self.query = query
        self.test = query.test
        self.outcome = outcome
        self.settings = Settings(query.test, query.reading, query.table, query.rows)
        names = {axiom.name for axiom in query.axioms.axioms}
        self.prune = {"causality", "coherence"} <= names
        self.judges: dict[int, LocationJudge] = {}
        self.states: dict[tuple[int, ...], None] = {}
        self.races: dict[tuple[object, ...], None] = {}
        self.on_registers = _only_registers(query.test.filter)

    def run(self) -> None:
        try:
            names = {axiom.name for axiom in self.query.axioms.axioms}
            thin_air = "no-thin-air" not in names
            traces = Threads(self.test, self.query.bound, thin_air).traces()
            self._cut(traces)
            if self.outcome.asked == "termination":
                self._hangs(traces)
            else:
                self._states(traces)
        except BudgetExceeded as stop:
            self.outcome.complete = False
            self.outcome.cut += (str(stop),)
        self.outcome.candidates = self.query.candidates

    def _cut(self, traces: list[list[Trace]]) -> None:
        reasons = {trace.cut: None for each in traces for trace in each if trace.cut}
        if reasons:
            self.outcome.complete = False
            self.outcome.cut += tuple(
                f"{reason} goes round more than {self.query.bound} times" for reason in reasons
            )

    # --- states ------------------------------------------------------------------------------

    def _states(self, traces: list[list[Trace]]) -> None:
        finished = [[t for t in each if t.repeats < 0 and not t.cut] for each in traces]
        for chosen in combinations(self.test, finished):
            if self.on_registers and not holds(self.test.filter, self._registers(chosen)):
                continue
            for setting in self.settings.of(chosen):
                if not setting.stuck:
                    for candidate in self._candidates(setting, chosen):
                        self._judge(candidate)
        self.outcome.states = [
            dict(zip(self.test.observed, state, strict=True)) for state in sorted(self.states)
        ]
        satisfied = [holds(self.test.condition, state) for state in self.outcome.states]
        self.outcome.positive = sum(satisfied)
        self.outcome.negative = len(satisfied) - self.outcome.positive
        self.outcome.races = races_of(self.test, self.races)

    def _registers(self, traces: Sequence[Trace]) -> State:
        return {
            each: trace.final.get(each.register, 0)
            for thread, trace in zip(self.test.threads, traces, strict=True)
            for each in self.test.observed
            if isinstance(each, RegisterAt) and each.thread == thread.name
        }

    def _judge(self, candidate: Candidate) -> None:
        """Adds the final states of the candidate, if some coherence order makes it consistent."""
        choices = self._locations(candidate)
        if choices is None:
            return
        number = 1
        for found in choices.values():
            number *= len(found)
        self.outcome.executions += number
        registers = self._registers(candidate.traces)
        regions = {name: self.test.named[name].region for name in _finals(self.test)}
        finals = {
            region: sorted({candidate.values[w] for maximal in choices[region] for w in maximal})
            for region in dict.fromkeys(regions.values())
        }
        for values in product(*finals.values()):
            last = dict(zip(finals, values, strict=True))
            state = tuple(
                registers[each] if isinstance(each, RegisterAt) else last[regions[each.location]]
                for each in self.test.observed
            )
            if state not in self.states and self._kept(state):
                self.states[state] = None
        self._races(candidate)

    def _kept(self, state: tuple[int, ...]) -> bool:
        if self.on_registers:
            return True
        return holds(self.test.filter, dict(zip(self.test.observed, state, strict=True)))

    def _races(self, candidate: Candidate) -> None:
        skeleton = candidate.setting.skeleton
        after, before = candidate.cause, ~candidate.cause
        for event in range(len(skeleton.accesses)):
            ordered = after.rows[event] | before.rows[event] | skeleton.strong.rows[event]
            for other in members(skeleton.conflicts[event] & ~ordered):
                if event < other:
                    a, b = skeleton.accesses[event], skeleton.accesses[other]
                    steps = [candidate.traces[e.where.agent].steps[e.where.step] for e in (a, b)]
                    key = (
                        a.where.agent, steps[0].act, b.where.agent, steps[1].act,
                        a.access.region.array,
                    )  # fmt: skip
                    self.races[key] = None

    # --- candidates --------------------------------------------------------------------------

    def _candidates(
        self, setting: Setting, traces: tuple[Trace, ...]
    ) -> Iterator[Candidate]:
        """All choices of rf and of the order of fences that break no axiom about those."""
        skeleton = setting.skeleton
        values, reads = _values(setting, traces)
        depends = dependencies(setting, traces)
        sources = [self._sources(setting, read, value, values) for read, value in reads.items()]
        for chosen in product(*sources):
            self.query.count()
            rf = dict(zip(reads, chosen, strict=True))
            relation = Relation.of(skeleton.size, ((w, r) for r, w in rf.items()))
            thin_air = [a for a in self.query.axioms.about("order")]
            if any(not _obeys(a.demand, a.relation(_View(relation, depends))) for a in thin_air):
                continue
            observed = observation(setting, relation)
            for sc in self._fence_orders(setting):
                candidate = Candidate(setting, traces, rf, sc, values=values)
                if self._order(candidate, observed):
                    yield candidate

    def _sources(
        self, setting: Setting, read: int, value: int, values: dict[int, int]
    ) -> list[int]:
        """The writes of that value which causality without ties lets the read see."""
        skeleton = setting.skeleton
        _, writes = skeleton.by_region[skeleton.region(read)]
        found = [w for w in writes if w != read and values.get(w) == value]
        if not self.prune:
            return found
        base = setting.order.before(frozenset()).accesses
        initial = skeleton.initial[skeleton.region(read)]
        kept = []
        for write in found:
            after = write != initial and base[write] >> read & 1
            hidden = any(
                other not in (write, read, initial)
                and base[read] >> other & 1
                and (write == initial or base[other] >> write & 1)
                for other in writes
            )
            if not after and not hidden:
                kept.append(write)
        return kept

    def _fence_orders(self, setting: Setting) -> Iterator[frozenset[tuple[int, int]]]:
        """All total orders of morally strong fences, consistent with program order."""
        pairs, po = setting.skeleton.fence_pairs, setting.skeleton.fence_po
        size = len(setting.skeleton.fences)
        for flips in product((False, True), repeat=len(pairs)):
            order = [
                (b, a) if flip else (a, b) for (a, b), flip in zip(pairs, flips, strict=True)
            ]
            if not pairs or Relation.of(size, [*order, *po]).acyclic:
                yield frozenset(order)

    def _order(self, candidate: Candidate, observed: Relation) -> bool:
        """Causality of the candidate; False when the order of fences contradicts it."""
        setting = candidate.setting
        skeleton = setting.skeleton
        ties = frozenset(
            number
            for number, tie in enumerate(skeleton.ties)
            if (
                tie.fences in candidate.sc
                if tie.fences is not None
                else observed.rows[tie.write] >> tie.read & 1
            )
        )
        before = setting.order.before(ties)
        size = len(skeleton.fences)
        if size:
            view = _Fences(
                Relation.of(size, candidate.sc),
                ~Relation(list(before.fences)),
            )
            axioms = self.query.axioms.about("fences")
            if not all(_obeys(a.demand, a.relation(view)) for a in axioms):
                return False
        candidate.observed = observed
        candidate.base, candidate.cause = causality(setting, before.accesses, observed)
        return True

    def _locations(
        self, candidate: Candidate, lasting: int = 0, silent: int = 0
    ) -> dict[Region, list[tuple[int, ...]]] | None:
        """For each word the coherence-maximal writes of each coherence order that the axioms
        allow; None when some word has none. `lasting` reads must read a maximal write, `silent`
        writes apart."""
        skeleton = candidate.setting.skeleton
        judge = self.judges.get(id(skeleton))
        if judge is None:
            judge = self.judges[id(skeleton)] = LocationJudge(skeleton, self.query.axioms)
        found = {}
        for region in skeleton.by_region:
            choices = judge.choices(region, candidate.rf, candidate.base, candidate.cause, lasting, silent)
            if not choices:
                return None
            found[region] = choices
        return found

    # --- termination -------------------------------------------------------------------------

    def _hangs(self, traces: list[list[Trace]]) -> None:
        """Fair executions that do not end: some threads wait at a barrier for ever, or repeat a
        loop that changes nothing, whose reads see coherence-maximal writes."""
        complete = [[t for t in each if not t.cut] for each in traces]
        for chosen in combinations(self.test, complete):
            repeating = any(trace.repeats >= 0 for trace in chosen)
            for setting in self.settings.of(chosen):
                if not repeating and not setting.stuck:
                    continue
                text = self._describe(setting, chosen)
                if text not in self.outcome.hangs and self._possible(setting, chosen):
                    self.outcome.hangs += (text,)
        self.outcome.hangs = tuple(sorted(self.outcome.hangs))

    def _possible(self, setting: Setting, traces: tuple[Trace, ...]) -> bool:
        lasting = silent = 0
        for where, (reads, writes) in setting.skeleton.events_of.items():
            repeats = traces[where.agent].repeats
            if 0 <= repeats <= where.step:
                lasting |= sum(1 << read for read in reads)
                silent |= sum(1 << write for write in writes)
        return any(
            self._locations(candidate, lasting, silent) is not None
            for candidate in self._candidates(setting, traces)
        )

    def _describe(self, setting: Setting, traces: tuple[Trace, ...]) -> str:
        parts = []
        for number, (thread, trace) in enumerate(zip(self.test.threads, traces, strict=True)):
            if number in setting.stuck:
                done = trace.steps[setting.executed[number]]
                parts.append(f"{thread.name} waits at line {done.act.place.line} ({done.act.text})")
            elif trace.repeats >= 0:
                act = trace.steps[trace.repeats].act if trace.repeats < len(trace.steps) else None
                where = f"line {act.place.line}" if act else "its loop"
                parts.append(f"{thread.name} repeats {where} for ever")
        return "; ".join(parts)


# --- pieces of a candidate ------------------------------------------------------------------------


@dataclass
class _View:
    """What axioms about order may ask."""

    rf: Relation
    dep: Relation


@dataclass
class _Fences:
    """What axioms about fences may ask."""

    sc: Relation
    sc_cause: Relation


def _obeys(demand: str, relation: Relation) -> bool:
    return relation.irreflexive if demand == "irreflexive" else relation.acyclic


def _values(setting: Setting, traces: Sequence[Trace]) -> tuple[dict[int, int], dict[int, int]]:
    """What each write writes, and what each read reads, by event."""
    skeleton = setting.skeleton
    writes = {
        skeleton.initial[word.region]: word.initial for word in skeleton.words
    }
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


def _only_registers(condition: Condition) -> bool:
    return not any(isinstance(each, Final) for each in quantities(condition))


def _finals(test: Test) -> list[str]:
    return [each.location for each in test.observed if isinstance(each, Final)]
