"""Judge a program: can a buffer be overwritten before its last read?

`check` runs the program once, builds the event graph for a reading, makes sure that the run stands
for every schedule, and grades all conflicting pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import TypeVar

from .branches import MAX_COMBINATIONS, programs
from .build import build_graph
from .builder import Decide, every_branch
from .causality import Causality
from .composition import ROWS, Row
from .conflicts import Conflicts, Regions, find_regions
from .coverage import not_covered, require_isa
from .deadlock import explain_deadlock
from .explain import Explainer, is_read, place_of
from .graph import AccessEvent, Graph
from .instructions import Access, Proxy
from .judge import Group, Judge, Judgement, hazard
from .matching import Matching, Unstable
from .program import Choice, Program, TimeLimit
from .readings import (
    ACQUIRE_TCGEN05,
    ASSUMPTIONS,
    ASYNC_READ_DONE,
    COMPLETED_RIDES,
    CTA_SPANS_CLUSTER,
    FENCE_ANYWHERE,
    LANES_TOGETHER,
    OWN_EFFECTS,
    REGISTER_USE,
    WAR_NO_FENCE,
    Reading,
    reading_named,
)
from .rules import TABLE, RuleTable
from .run import Run, Where, run_once
from .verdict import KINDS, Finding, LazyRows, Proof, Result, verdict_of

T = TypeVar("T")
MAX_FINDINGS = 20
MAX_PROOFS = 6
Progress = Callable[[str], None]
Numbers = dict[tuple[Where, Access], AccessEvent]


@dataclass
class Question:
    """What is asked of a program, with the tables to answer from (tests change them)."""

    program: Program
    reading: Reading
    location: str | None = None
    table: RuleTable = TABLE
    rows: tuple[Row, ...] = ROWS
    deadline: float | None = None
    progress: Progress = lambda message: None

    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def in_time(self) -> None:
        """Errors: TimeLimit past the deadline."""
        if self.late():
            raise TimeLimit("the time limit was reached before all pairs were judged")


def check(
    program: Program,
    reading: str | Reading = "ptx",
    location: str | None = None,
    max_findings: int = MAX_FINDINGS,
    deadline: float | None = None,
    progress: Progress | None = None,
    table: RuleTable = TABLE,
    rows: tuple[Row, ...] = ROWS,
) -> Result:
    """The verdict of `program` in one reading.

    `location` (`A` or `A[i]`) keeps findings whose bytes touch it. `deadline` is a value of
    `time.monotonic()`; past it the answer is what was found, and `unknown`.
    Errors: InputError for an unknown reading or location.
    """
    started = time.monotonic()
    chosen = reading_named(reading) if isinstance(reading, str) else reading
    question = Question(
        program, chosen, location, table, rows, deadline, progress or (lambda message: None)
    )
    require_isa(program, chosen)
    results = []
    for each in programs(program):
        results.append(Checker(replace(question, program=each)).result(max_findings))
        if question.late():
            break
    result = _worst(results)
    result.seconds = time.monotonic() - started
    return result


def _worst(results: list[Result]) -> Result:
    """One answer for all branch outcomes: the first that is worst, and what all assumed."""
    severity = ("deadlock", "race", "misuse", "unknown", "ordered")
    worst = min(results, key=lambda result: severity.index(result.verdict))
    used = {name for result in results for name in result.assumptions}
    notes = {note: None for result in results for note in result.notes}
    if len(results) > 1:
        notes[f"{len(results)} combinations of branch outcomes judged; the worst is shown"] = None
    return replace(worst, assumptions=tuple(sorted(used)), notes=tuple(notes))


class Checker:
    """One question, answered step by step."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.program = question.program
        self.regions: Regions = find_regions(self.program, question.location)
        self.reading = self._that_matters(question.reading)
        outside = self._shared("not covered", self.program, lambda: [*not_covered(self.program)])
        self.notes: list[str] = [*self.program.notes, *outside]
        self.unknown = False
        self._decided: dict[tuple[str, str], tuple[Causality, Numbers]] = {}
        self.run: Run

    def result(self, max_findings: int) -> Result:
        self.run = run_once(self.program)
        self.question.progress("building the event graph")
        graph = self._graph(self.reading)
        findings = self._run_findings(graph)
        proofs: tuple[Proof, ...] = ()
        used: tuple[str, ...] = ()
        try:
            settled = self._settle_matching(graph)
            self.question.progress("judging conflicting pairs")
            judgement = self._judge(graph)
            findings += self._pair_findings(judgement) if settled is None else settled
            self.question.progress("looking for proofs and for the assumptions they need")
            used = self._used_assumptions(judgement)
            proofs = self._proofs(judgement)
        except TimeLimit as stop:
            self._give_up(str(stop))
        findings = _merge(findings)
        findings.sort(key=_rank)
        verdict = verdict_of(tuple(findings))
        if self.unknown and verdict == "ordered":
            verdict = "unknown"
        return Result(
            self.program.name, self.program.parameters, self.reading.name, self.reading.isa,
            verdict, used, tuple(findings[:max_findings]), proofs, self.program.bounds,
            tuple(self.notes), max(0, len(findings) - max_findings), complete=not self.unknown,
        )  # fmt: skip

    @cached_property
    def _proxies(self) -> set[Proxy]:
        """Proxies of the accesses that take part in some conflict."""
        return self._shared("proxies", self.regions, self._find_proxies)

    def _find_proxies(self) -> set[Proxy]:
        return {
            access.proxy
            for _, step in self.program.steps()
            for access in step.instruction.accesses
            if self.regions.wanted(access.region)
        }

    def _give_up(self, reason: str) -> None:
        self.unknown = True
        self.notes.append(reason)

    def _that_matters(self, reading: Reading) -> Reading:
        """The reading without the assumptions that speak of nothing in this program."""
        idle = {a for a in reading.assumptions if not self._can_matter(a)}
        return replace(reading, assumptions=reading.assumptions - idle)

    def _graph(self, reading: Reading, decide: Decide | None = None) -> Graph:
        """The event graph; readings that differ only in how order composes share it."""
        lanes = reading.holds(LANES_TOGETHER) and self.program.splits_warps
        branches = None if decide is None else decide.__name__
        question = self.question
        isa = reading.one_pass.isa
        key = (question.table, question.location, isa, lanes, branches)
        memo = self.program.memo
        if key not in memo:
            memo[key] = build_graph(self.run, reading, question.table, self.regions.wanted, decide)
        graph: Graph = memo[key]
        return graph

    def _matching(self, graph: Graph) -> Matching:
        return self._shared("matching", graph, lambda: Matching(graph))

    def _shared(self, what: str, of: object, make: Callable[[], T]) -> T:
        """What depends on a graph, or on regions, alone is worked out once for all readings."""
        key = (what, id(of))
        if key not in self.program.memo:
            self.program.memo[key] = (of, make())  # `of` is kept, so that its id stays its own
        found: T = self.program.memo[key][1]
        return found

    def _order(self, reading: Reading, decide: Decide | None = None) -> Causality:
        graph = self._graph(reading, decide)
        return Causality(graph, self.question.rows, reading, self.question.in_time)

    def _judge(self, graph: Graph) -> Judgement:
        causality = self._order(self.reading)
        conflicts = self._shared("conflicts", graph, lambda: Conflicts(graph, self.regions))
        other = self._other_version(causality)
        return Judge(graph, causality, conflicts, other, self.question.in_time).judge()

    def _other_version(self, causality: Causality) -> Causality | None:
        """The order by the ISA version that differs most from this one, where it can matter."""
        if Proxy.TMEM not in self._proxies or self.reading.isa not in ("9.3", "9.4"):
            return None
        return causality.under(self.reading.at("9.3" if self.reading.isa == "9.4" else "9.4"))

    # --- findings that are not pairs ---------------------------------------------------------

    def _run_findings(self, graph: Graph) -> list[Finding]:
        """What already goes wrong in the one run: broken contracts of barriers, deadlock."""
        findings = [
            Finding(m.kind, "error", m.label, 1, place_of(graph, m.where), reason=m.reason)
            for m in self.run.misuses
        ]
        for item in self._matching(graph).broken:
            severity = "error" if item.kind == "count" else self.reading.protocol_severity
            findings.append(replace(self._suspect(graph, item), severity=severity))
        if self.run.stuck:
            findings.append(explain_deadlock(self.run, graph))
            self.notes.append("what the blocked agents would have done next was not judged")
        return findings

    def _settle_matching(self, graph: Graph) -> list[Finding] | None:
        """None when one run stands for all schedules; else what goes wrong in any matching.

        Where the condition of `matching.py` fails, the interleavings engine settles small
        programs; of large ones only this matching is judged, and the answer is not complete.
        """
        loose = self._matching(graph).unstable
        if not loose:
            return None
        from .interleavings import explore  # imports z3: only when it is needed

        self.question.progress("searching for other ways in which arrivals and waits can match")
        exploration = explore(replace(self.question, program=self.program))
        for disagreement in exploration.disagreements:
            self._give_up(f"the engines disagree, please report: {disagreement}")
        if exploration.unique:
            return None
        if exploration.complete:
            self.notes.append(
                f"barrier matching depends on the schedule: all {len(exploration.runs)} matchings "
                "were judged"
            )
            return exploration.findings
        self._give_up(
            "barrier matching may depend on the schedule, and only some matchings were judged: "
            + exploration.reason
        )
        here = self._pair_findings(self._judge(graph))
        loose.sort(key=lambda item: item.at)
        suspects = [self._suspect(graph, item) for item in loose]
        doubtful = [replace(finding, severity="note") for finding in suspects[1:]]
        return here + exploration.findings + suspects[:1] + doubtful

    def _suspect(self, graph: Graph, item: Unstable) -> Finding:
        """A wait or an arrival at fault, as the conditions of `matching.py` see it."""
        return Finding(
            item.kind, "error", item.label, 1, place_of(graph, item.where), reason=item.reason
        )

    # --- pairs -------------------------------------------------------------------------------

    def _pair_findings(self, judgement: Judgement) -> list[Finding]:
        explainer = Explainer(judgement.graph, judgement.causality)
        findings = []
        for group in judgement.groups.values():
            if self._confirmed(judgement, group):
                findings.append(self._finding(explainer, group))
            elif 2 ** len(self._choices) > MAX_COMBINATIONS:
                self._give_up(
                    f"{group.key.array}: a pair is ordered on each branch choice tried, by "
                    "different paths; not all choices were tried"
                )
        return findings

    def _finding(self, explainer: Explainer, group: Group) -> Finding:
        graph = explainer.graph
        first, second = graph.accesses[group.first], graph.accesses[group.second]
        missing, remedy = explainer.missing(first, second, group.key.kind)
        return Finding(
            group.key.kind, group.key.severity, first.access.region.label, group.count,
            place_of(graph, first.where), place_of(graph, second.where), group.key.hazard,
            group.key.reason, _named(group.key.reason),
            LazyRows(partial(explainer.schedule, first, second, group.key.kind)), (), missing,
            remedy, _other_name(first, second),
        )  # fmt: skip

    def _confirmed(self, judgement: Judgement, group: Group) -> bool:
        """A pair without a path through unconditional steps may still be ordered on each branch
        choice; it is a finding when some choice leaves it unordered."""
        first, second = (judgement.graph.accesses[n] for n in (group.first, group.second))
        isa = group.key.isa or self.reading.isa
        if not self._graph(self.reading.at(isa)).conditional >> first.number & 1:
            return True
        if not self._alternatives:
            return True  # no other branch taken: then just the order that was used is there
        if 2 ** len(self._choices) <= MAX_COMBINATIONS:
            return any(
                self._unordered_under(decide, isa, first, second)
                for decide in _all_outcomes(self._choices, first, second)
            )
        outcomes = [_following(first, second, default) for default in (False, True)]
        return any(
            self._unordered_under(decide, isa, first, second)
            for decide in (outcomes[0], every_branch, outcomes[1])
        )

    @cached_property
    def _choices(self) -> list[Choice]:
        found = {c: None for _, step in self.program.steps() for c, _ in step.guard}
        return sorted(found, key=lambda choice: (choice.site, choice.instance))

    @cached_property
    def _alternatives(self) -> bool:
        """Does some branch do something when it is not taken?"""
        return any(not taken for _, step in self.program.steps() for _, taken in step.guard)

    def _unordered_under(
        self, decide: Decide, isa: str, first: AccessEvent, second: AccessEvent
    ) -> bool:
        """Is the pair unordered when the branches go as `decide` says?"""
        key = (decide.__name__, isa)
        if key not in self._decided:
            order = self._order(self.reading.at(isa), decide)
            numbers = {(event.where, event.access): event for event in order.graph.accesses}
            self._decided[key] = (order, numbers)
        causality, numbers = self._decided[key]
        one, two = (numbers.get((e.where, e.access)) for e in (first, second))
        if one is None or two is None:
            return False
        return not causality.before(two).surely >> one.number & 1

    # --- assumptions and proofs --------------------------------------------------------------

    def _used_assumptions(self, judgement: Judgement) -> tuple[str, ...]:
        """Assumptions without which some ordered pair would not be: those left after taking
        away, one by one, what changes nothing."""
        needed = self.reading
        for assumption in reversed(ASSUMPTIONS):  # the boldest first
            if assumption not in needed.assumptions:
                continue
            fewer = replace(needed, assumptions=needed.assumptions - {assumption})
            if self._same_answer(judgement, fewer):
                needed = fewer
        return tuple(sorted(needed.assumptions))

    def _can_matter(self, assumption: str) -> bool:
        """False when the program has nothing that the assumption speaks of."""
        proxies = self._proxies
        ctas = {agent.cta for agent in self.program.agents}
        if assumption in (ACQUIRE_TCGEN05, COMPLETED_RIDES, REGISTER_USE):
            return Proxy.TMEM in proxies or Proxy.ASYNC in proxies
        if assumption == CTA_SPANS_CLUSTER:
            return len(ctas) > 1
        if assumption == OWN_EFFECTS:
            return any(step.instruction.signals for _, step in self.program.steps())
        if assumption == LANES_TOGETHER:
            return self.program.splits_warps or any(a.lanes > 1 for a in self.program.agents)
        if assumption in (ASYNC_READ_DONE, WAR_NO_FENCE, FENCE_ANYWHERE):
            return Proxy.ASYNC in proxies
        return True

    def _same_answer(self, judgement: Judgement, reading: Reading) -> bool:
        if self._graph(reading) is not judgement.graph:
            return self._order(reading).keeps(judgement.ordered)
        return judgement.causality.under(reading).keeps(judgement.ordered)

    def _proofs(self, judgement: Judgement) -> tuple[Proof, ...]:
        """For each kind of ordered pair that matters, the chain for its latest instance."""
        explainer = Explainer(judgement.graph, judgement.causality)
        chosen: dict[tuple[str, str], tuple[AccessEvent, AccessEvent]] = {}
        accesses = judgement.graph.accesses
        for number, bits in enumerate(judgement.ordered):
            second = accesses[number]
            while bits:
                first = accesses[bits.bit_length() - 1]
                if first.strand != second.strand:
                    what = hazard(first, second)
                    if is_read(first) or what == "read-before-write":
                        chosen[first.access.region.array, what] = (first, second)
                    break
                bits ^= 1 << first.number
        order = sorted(chosen, key=lambda key: (key[1] != "overwrite-before-last-read", key))
        proofs = []
        for key in order[:MAX_PROOFS]:
            proof = explainer.proof(*chosen[key], key[1])
            if proof is not None:
                proofs.append(proof)
        return tuple(proofs)


def _all_outcomes(
    choices: list[Choice], first: AccessEvent, second: AccessEvent
) -> Iterator[Decide]:
    """Every way in which the branches can go that executes both accesses."""
    forced = dict(first.guard | second.guard)
    for outcomes in product((False, True), repeat=len(choices)):
        decided = dict(zip(choices, outcomes, strict=True))
        if all(decided[choice] is outcome for choice, outcome in forced.items()):
            yield _decider(decided)


def _decider(decided: dict[Choice, bool]) -> Decide:
    def decide(choice: Choice) -> bool:
        return decided[choice]

    decide.__name__ = "".join("01"[outcome] for outcome in decided.values())
    return decide


def _other_name(first: AccessEvent, second: AccessEvent) -> str:
    one, two = first.access.region, second.access.region
    return two.label if two.array != one.array else ""


def _named(reason: str) -> tuple[str, ...]:
    """The assumptions that a finding's reason names."""
    return tuple(name for name in ASSUMPTIONS if name in reason.split())


def _following(first: AccessEvent, second: AccessEvent, default: bool) -> Decide:
    """Branches go as the pair's own guards say, all others as `default`."""
    forced = dict(first.guard | second.guard)

    def decide(choice: Choice) -> bool:
        return forced.get(choice, default)

    free = all(outcome is default for outcome in forced.values())
    decide.__name__ = f"all {default}" if free else f"{sorted(map(str, forced.items()))} {default}"
    return decide


def _merge(findings: list[Finding]) -> list[Finding]:
    """Findings that a person cannot tell apart read as one; those without a second access are
    merged by instruction and barrier array."""
    merged: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        if finding.second is not None:  # operands of one instruction read as one
            alike = (finding.kind, finding.severity, finding.hazard, finding.reason)
            places = (finding.location, finding.first, finding.second)
            merged.setdefault((*alike, *places), finding)
            continue
        array = finding.location.partition("[")[0]
        key = (
            finding.kind,
            array,
            finding.first.agent,
            finding.first.line,
            finding.first.text.split()[0],
        )
        known = merged.get(key)
        merged[key] = finding if known is None else replace(known, count=known.count + 1)
    return list(merged.values())


def _rank(finding: Finding) -> tuple[object, ...]:
    tile = finding.second.tile if finding.second else finding.first.tile
    return (
        finding.severity != "error",
        KINDS.index(finding.kind),
        finding.hazard != "overwrite-before-last-read",
        -1 if tile is None else tile,
        finding.location,
        finding.first.line,
        finding.second.line if finding.second else 0,
        finding.first.cta,
    )
