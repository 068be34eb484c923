"""The explicit engine: every candidate execution of a test, judged by the axioms.

Traces, then what each read reads from, then the order of fence.sc, then the coherence order of
each location by itself (the axioms that mention it speak of one location). Candidates that break
causality whatever else is chosen are not made.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import product

from ..composition import ROWS, Row
from ..graph import members
from ..program import BudgetExceeded, TimeLimit
from ..readings import Reading
from ..rules import TABLE, RuleTable
from .axioms import AXIOMS, AxiomTable
from .candidates import Candidate, Candidates
from .code import Condition, Final, RegisterAt, State, Test, holds, quantities
from .combos import choices
from .hangs import hangs
from .outcome import Outcome
from .picture import picture
from .races import RaceKey, races_of
from .settings import Settings
from .traces import Threads, Trace, final_registers

MOST_CANDIDATES = 15_000
"""Some seconds of work."""
CLOCK = 64
"""Candidates between two looks at the clock."""


@dataclass
class Query:
    """A test, the tables it is judged by, and the limits."""

    test: Test
    reading: Reading
    bound: int = 1
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


def enumerate_executions(query: Query, outcome: Outcome, show: bool = False) -> None:
    """Fills `outcome` with states and races, or with hangs (property "termination"); with `show`
    also with pictures."""
    engine = Enumerator(query, outcome, show)
    engine.run()
    if show and outcome.asked == "condition" and outcome.witness is None and outcome.complete:
        from .explain import forbidden

        outcome.forbidden = forbidden(query, engine.traces, engine.settings)


class Enumerator:
    """Walks all candidates of one query."""

    def __init__(self, query: Query, outcome: Outcome, show: bool = False) -> None:
        self.query = query
        self.show = show
        self.traces: list[list[Trace]] = []
        self.test = query.test
        self.outcome = outcome
        self.settings = Settings(query.test, query.reading, query.table, query.rows)
        self.candidates = Candidates(query.axioms, query.count, query.in_time)
        self.states: dict[tuple[int, ...], None] = {}
        self.races: dict[RaceKey, None] = {}
        self.finals = {name: query.test.named[name].word for name in _finals(query.test)}
        self.judged: set[tuple[int, int]] = set()
        self.on_registers = _only_registers(query.test.filter)

    def run(self) -> None:
        try:
            thin_air = "no-thin-air" not in self.query.axioms
            traces = Threads(self.test, self.query.bound, thin_air).traces()
            self.traces = traces
            self._cut(traces)
            if self.outcome.asked == "termination":
                self.outcome.hangs = hangs(self.test, traces, self.settings, self.candidates)
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
            self.outcome.cut += tuple(reasons)

    # --- states ------------------------------------------------------------------------------

    def _states(self, traces: list[list[Trace]]) -> None:
        finished = [[t for t in each if t.repeats < 0 and not t.cut] for each in traces]
        for setting, chosen in choices(self.test, finished, self.settings, self.candidates.prune):
            registers = final_registers(self.test, chosen)
            self.outcome.unfinished |= bool(setting.stuck)
            if setting.stuck or (self.on_registers and not holds(self.test.filter, registers)):
                continue
            for candidate in self.candidates.of(setting, chosen):
                self._judge(candidate, registers)
        self.outcome.states = [
            dict(zip(self.test.observed, state, strict=True)) for state in sorted(self.states)
        ]
        satisfied = [holds(self.test.condition, state) for state in self.outcome.states]
        self.outcome.positive = sum(satisfied)
        self.outcome.negative = len(satisfied) - self.outcome.positive
        self.outcome.races = races_of(self.test, self.races)

    def _judge(self, candidate: Candidate, registers: State) -> None:
        """Adds the final states of the candidate, if some coherence order makes it consistent."""
        choices = self.candidates.locations(candidate)
        if choices is None:
            return
        number = 1
        for found in choices.values():
            number *= len(found)
        self.outcome.executions += number
        regions = self.finals
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
                if self.show:
                    self._witness(candidate, state)
        self._races(candidate)

    def _witness(self, candidate: Candidate, state: tuple[int, ...]) -> None:
        """Keeps the first execution that satisfies the condition (that does not, of a forall)."""
        named = dict(zip(self.test.observed, state, strict=True))
        wanted = self.test.quantifier != "forall"
        if self.outcome.witness is None and holds(self.test.condition, named) is wanted:
            self.outcome.witness = picture(candidate, self.candidates.judge(candidate), named)

    def _kept(self, state: tuple[int, ...]) -> bool:
        if self.on_registers:
            return True
        return holds(self.test.filter, dict(zip(self.test.observed, state, strict=True)))

    def _races(self, candidate: Candidate) -> None:
        skeleton = candidate.setting.skeleton
        if (id(skeleton), id(candidate.causes)) in self.judged:
            return  # the same accesses in the same order
        self.judged.add((id(skeleton), id(candidate.causes)))
        after, before = candidate.causes.cause, ~candidate.causes.cause
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


def _only_registers(condition: Condition) -> bool:
    return not any(isinstance(each, Final) for each in quantities(condition))


def _finals(test: Test) -> list[str]:
    return [each.location for each in test.observed if isinstance(each, Final)]
