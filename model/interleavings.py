"""The interleavings engine: every way in which arrivals, phases and waits can match.

`checking.py` judges one matching and needs to know that it is the only one. Where the schedule can
change it (a wait that laps, an arrival in another phase, a deadlock that only some schedules
reach), this engine asks z3 for schedules until no matching is left, replays each on the barrier
machine of `run.py`, and judges the pairs of every matching. See `smt.py` for the constraints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from . import instructions as ins
from .checking import Checker, Question
from .deadlock import explain_deadlock
from .explain import Explainer, place_of
from .graph import AccessEvent, members
from .judge import Group, GroupKey, Judgement, hazard
from .matching import Matching
from .operations import Operation, Operations, operations
from .program import Barrier, BudgetExceeded, Program
from .readings import LANES_TOGETHER
from .reversal import Core, ancestors, pair
from .run import Delayed, Run, Where
from .smt import Effort, Schedule, Schedules
from .verdict import Finding, ScheduleRow

MAX_OPERATIONS = 200
MAX_MATCHINGS = 32
MAX_CORES = 6
SEARCH_UNITS = 120_000_000
"""Work that z3 may spend on the search for matchings (some seconds)."""
SEARCH_SHARE = 0.7


@dataclass
class Interleaving(Run):
    """A run with its schedule: steps as they are issued or pass, completions as they land."""

    trace: list[tuple[Where, int]] = field(default_factory=list)


class Replay(Delayed):
    """Runs a program in the order of a schedule; completions land when the schedule says."""

    def __init__(self, program: Program, found: Operations, together: bool) -> None:
        super().__init__(program)
        self.run: Interleaving = Interleaving(program)
        self.synchronizing = {operation.where for operation in found.every}
        self.together = together

    def replay(self, schedule: Schedule) -> Interleaving:
        """Errors: BudgetExceeded when the machine does not follow (a limit of the constraints)."""
        for team in self._mates():
            self._local(team)
        for operation in schedule.order:
            self._perform(operation)
        self.execute()
        if self.flying or not _follows(self.run, schedule):
            raise BudgetExceeded("a schedule found by z3 does not replay on the barrier machine")
        return self.run

    def _try(self, index: int) -> bool:
        where = Where(index, self.next[index])
        entered = where in self.run.generation_of
        passed = super()._try(index)
        if passed or (not entered and where in self.run.generation_of):
            self.run.trace.append((where, -1))
        return passed

    def _perform(self, operation: Operation) -> None:
        index, step = operation.where.agent, operation.where.step
        if operation.signal >= 0:
            if operation.arrival in self.flying:
                self.run.trace.append(operation.arrival)
                self.land(operation.arrival)
            return
        while self.next[index] <= step and self._try(index):
            pass
        self._local(next(team for team in self._mates() if index in team))

    def _mates(self) -> list[list[int]]:
        """Agents that advance in step: those of a warp, or each alone."""
        agents = self.program.agents
        if not self.together:
            return [[index] for index in range(len(agents))]
        teams = []
        for team in self._teams():
            lanes = [index for index in team if agents[index].lanes < 32]
            teams += [lanes] if lanes else []
            teams += [[index] for index in team if agents[index].lanes >= 32]
        return teams

    def _local(self, team: list[int]) -> None:
        """Steps that do not synchronize, in order of position, up to the next that does."""
        while True:
            live = [a for a in team if self.next[a] < len(self.program.agents[a].steps)]
            if not live:
                return
            index = min(live, key=self._position)
            if Where(index, self.next[index]) in self.synchronizing:
                return
            self._try(index)


def _follows(run: Run, schedule: Schedule) -> bool:
    """Did the machine match as the constraints said?"""
    landed = {arrival: phase for arrival, (_, phase) in landings(run).items()}
    return landed == schedule.landed and run.observed == schedule.observed


def matchings(
    program: Program, effort: Effort, limit: int = MAX_MATCHINGS, together: bool = False
) -> Iterator[Interleaving]:
    """One run for each way in which arrivals, phases and waits can match; all, when it ends.

    `together`: the lanes of a warp advance in step.
    Errors: BudgetExceeded when the program is too large or a limit stops the search.
    """
    found = operations(program, MAX_OPERATIONS)
    schedules = Schedules(program, found, together, effort)
    number = 0
    while (schedule := schedules.next()) is not None:
        if number >= limit:
            raise BudgetExceeded(f"more than {limit} matchings of arrivals and waits")
        number += 1
        yield Replay(program, found, together).replay(schedule)


# --- judging every matching ---------------------------------------------------------------------


@dataclass
class Exploration:
    """What the search found. `complete`: `runs` holds every matching there is.

    `cores` names the rules that carry the order of a kind of pair, by location and hazard;
    `disagreements` are pairs on which z3 and the causality engine differ (a bug in one of them).
    """

    runs: list[Interleaving] = field(default_factory=list)
    complete: bool = False
    findings: list[Finding] = field(default_factory=list)
    cores: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    disagreements: list[str] = field(default_factory=list)
    reason: str = ""
    """Why the search is not complete."""

    @property
    def unique(self) -> bool:
        """One run stands for every schedule."""
        return self.complete and len(self.runs) == 1


def explore(
    question: Question, units: int = SEARCH_UNITS, limit: int = MAX_MATCHINGS
) -> Exploration:
    """Every matching of the question's program, and what is wrong in any of them.

    Never raises for size or time: the exploration is then not `complete`, and `reason` says why.
    """
    return _Explorer(question).explore(units, limit)


class _Explorer:
    def __init__(self, question: Question) -> None:
        self.question = question
        self.found = Exploration()
        self.known: dict[tuple[object, ...], Finding] = {}
        self.compared: set[GroupKey] = set()

    def explore(self, units: int, limit: int) -> Exploration:
        found = self.found
        found.runs, found.reason = self._search(units, limit)
        found.complete = not found.reason
        try:
            self._judge()
        except BudgetExceeded as stop:
            found.complete, found.reason = False, str(stop)
        found.findings = list(self.known.values())
        return found

    def _search(self, units: int, limit: int) -> tuple[list[Interleaving], str]:
        """The matchings, and why they are not all; searched once for all readings."""
        program = self.question.program
        together = self.question.reading.holds(LANES_TOGETHER) and program.splits_warps
        key = ("matchings", together, units, limit)
        if key not in program.memo:
            runs: list[Interleaving] = []
            reason = ""
            try:
                effort = Effort(units, self.question.deadline)
                for run in matchings(program, effort, limit, together):
                    runs.append(run)
            except BudgetExceeded as stop:
                reason = str(stop)
            program.memo[key] = (runs, reason)
        known: tuple[list[Interleaving], str] = program.memo[key]
        return known

    def _judge(self) -> None:
        """Errors: BudgetExceeded when time runs out, or a pair depends on a branch."""
        outcomes = Outcomes(self.found.runs)
        undecided = ""
        for run in self.found.runs:
            self.question.in_time()
            matching = _Matching(self.question, run, self.compared)
            self._add(matching.deviations(outcomes))
            self._add(matching.findings())
            self.found.disagreements += matching.disagreements
            for key, rules in matching.cores(MAX_CORES - len(self.found.cores)).items():
                self.found.cores.setdefault(key, rules)
            undecided = matching.undecided or undecided
        if undecided:
            raise BudgetExceeded(undecided)

    def _add(self, findings: list[Finding]) -> None:
        """The same instructions at fault in several matchings are one finding, shown shortest."""
        for finding in findings:
            key = _key(finding)
            known = self.known.get(key)
            if known is None:
                self.known[key] = finding
                continue
            shorter = min(known, finding, key=lambda f: len(f.schedule))
            self.known[key] = replace(shorter, count=max(known.count, finding.count))


def _key(finding: Finding) -> tuple[object, ...]:
    places = [
        (place.agent, place.line, place.instruction)
        for place in (finding.first, finding.second)
        if place is not None
    ]
    array = finding.location.partition("[")[0]
    reason = finding.reason if finding.severity == "note" else ""
    return (finding.kind, finding.hazard, finding.severity, reason, array, *places)


class _Matching(Checker):
    """One matching, judged like the only one."""

    def __init__(self, question: Question, run: Interleaving, compared: set[GroupKey]) -> None:
        fresh = replace(question.program)  # what is remembered with a program is of its greedy run
        super().__init__(replace(question, program=fresh))
        self.run: Interleaving = run
        self.graph = self._graph(self.reading)
        self.judgement: Judgement = self._judge(self.graph)
        self.compared = compared
        self.disagreements: list[str] = []
        self.undecided = ""

    def findings(self) -> list[Finding]:
        graph, run = self.graph, self.run
        found = [
            Finding(m.kind, "error", m.label, 1, place_of(graph, m.where), reason=m.reason)
            for m in run.misuses
        ]
        if run.stuck:
            deadlock = explain_deadlock(run, graph)
            found.append(replace(deadlock, schedule=(*self._rows(run.trace), *deadlock.schedule)))
        explainer = Explainer(graph, self.judgement.causality)
        for group in self.judgement.groups.values():
            if self._confirmed(self.judgement, group):
                found.append(self._finding(explainer, group))
                self._compare(group)
            else:
                self.undecided = (
                    f"{group.key.array}: a pair is ordered on each branch choice tried, by "
                    "different paths; not all choices were tried"
                )
        return found

    def _compare(self, group: Group) -> None:
        """z3 must find the reversal of a pair that causality leaves unordered; one a kind."""
        if group.key.severity != "error" or group.key in self.compared:
            return
        self.compared.add(group.key)
        # Accesses are numbered in a possible order; the finding may name them the other way.
        one, two = (self.graph.accesses[n] for n in sorted((group.first, group.second)))
        answer = pair(self.graph, one, two, self.question.rows, self.reading)
        if isinstance(answer, Core):
            texts = [self.graph.step(event.where).instruction.text for event in (one, two)]
            self.disagreements.append(
                f"{' and '.join(texts)}: unordered for causality, ordered for z3 by "
                + ", ".join(answer.rules)
            )

    def cores(self, most: int) -> dict[tuple[str, str], tuple[str, ...]]:
        """For each kind of ordered pair, the rules that its latest instance rests on."""
        chosen: dict[tuple[str, str], tuple[AccessEvent, AccessEvent]] = {}
        accesses = self.graph.accesses
        for second, bits in zip(accesses, self.judgement.ordered, strict=True):
            others = [accesses[n] for n in members(bits) if accesses[n].strand != second.strand]
            if others:
                key = (others[-1].access.region.array, hazard(others[-1], second))
                chosen[key] = (others[-1], second)
        found = {}
        for key, (first, second) in list(chosen.items())[:most]:
            answer = pair(self.graph, first, second, self.question.rows, self.reading)
            if isinstance(answer, Core):
                found[key] = answer.rules
            else:
                self.disagreements.append(f"{key}: ordered for causality, unordered for z3")
        return found

    # --- what the schedule decides --------------------------------------------------------------

    def deviations(self, outcomes: Outcomes) -> list[Finding]:
        """Waits and arrivals that different schedules match with different phases, where this
        matching has the earliest of them, or has a wait that misses its phase."""
        found = []
        for where, seen in self.run.observed.items():
            other = [_seen(count) for count in sorted(outcomes.seen[where])]
            if len(other) > 1 and seen == min(outcomes.seen[where]):
                reason = f"passes on {' or on '.join(other)}, as the schedule decides"
                found.append(self._deviation("lap", where, self.graph.issue_of[where], reason))
        for where in self.run.stuck:
            missed = outcomes.missed(self.run, where)
            if missed is not None:
                barrier, phase = missed
                reason = f"misses {_seen(phase)}: phase {phase} completes before it looks"
                node = self.graph.phase_node[barrier, phase]
                found.append(self._deviation("lap", where, node, reason))
        awaited = {barrier.label for barrier in Matching(self.graph).awaited}
        for arrival, (label, phase) in landings(self.run).items():
            phases = sorted(outcomes.landed[arrival])
            looked_at = label in awaited or label.startswith(("bar ", "warp "))
            if looked_at and len(phases) > 1 and phase == phases[0]:
                places = " or in ".join(f"phase {number}" for number in phases)
                reason = f"lands in {places}, as the schedule decides"
                node = self._node(*arrival)
                found.append(self._deviation("count", arrival[0], node, reason))
        return found

    def _deviation(self, kind: str, where: Where, node: int, reason: str) -> Finding:
        return Finding(
            kind, "error", _object(self.run.step(where).instruction), 1,
            place_of(self.graph, where), reason=reason, schedule=self._leading_to(node),
        )  # fmt: skip

    def _leading_to(self, node: int) -> tuple[ScheduleRow, ...]:
        """The part of the schedule that must precede a node."""
        needed = ancestors(self.graph, (node,))
        return self._rows(
            [
                (where, signal)
                for where, signal in self.run.trace
                if self._node(where, signal) in needed
            ]
        )

    def _node(self, where: Where, signal: int) -> int:
        """The node of a step, or of its completion (-1: a step without events)."""
        if signal >= 0:
            return self.graph.complete_of[where, signal]
        return self.graph.issue_of.get(where, -1)

    def _rows(self, trace: list[tuple[Where, int]]) -> tuple[ScheduleRow, ...]:
        rows = []
        for where, signal in trace:
            instruction = self.run.step(where).instruction
            if isinstance(instruction, ins.Compute):
                continue
            waits = isinstance(instruction, (ins.MbarrierTryWait, ins.ClusterWait))
            event = "complete" if signal >= 0 else "pass" if waits else "issue"
            rows.append(ScheduleRow(place_of(self.graph, where), event))
        return tuple(rows)


class Outcomes:
    """How each wait and each arrival matches, over all matchings."""

    def __init__(self, runs: list[Interleaving]) -> None:
        self.seen: dict[Where, set[int]] = defaultdict(set)
        self.landed: dict[tuple[Where, int], set[int]] = defaultdict(set)
        for run in runs:
            for where, count in run.observed.items():
                self.seen[where].add(count)
            for arrival, (_, phase) in landings(run).items():
                self.landed[arrival].add(phase)

    def missed(self, run: Run, where: Where) -> tuple[Barrier, int] | None:
        """A wait that other schedules pass, and whose phase is long over in this one."""
        instruction = run.step(where).instruction
        if not self.seen[where] or not isinstance(instruction, ins.MbarrierTryWait):
            return None
        wanted = min(self.seen[where])
        over = run.completed[instruction.barrier] > wanted
        return (instruction.barrier, wanted) if over else None


def _seen(count: int) -> str:
    return f"phase {count - 1}" if count else "the fresh barrier"


def _object(instruction: ins.Instruction) -> str:
    """The barrier that an arrival or a wait is about."""
    if isinstance(instruction, ins.MbarrierInstruction):
        return instruction.barrier.label
    if instruction.signals:
        return instruction.signals[0].barrier.label
    return f"bar {instruction.id}" if isinstance(instruction, ins.Bar) else instruction.text


def landings(run: Run) -> dict[tuple[Where, int], tuple[str, int]]:
    """For each arrival, the barrier and the phase or generation in which it landed."""
    found = {
        arrival: (barrier.label, phase)
        for barrier, phases in run.phases.items()
        for phase, arrivals in enumerate(phases)
        for arrival in arrivals
    }
    for where, (key, generation) in run.generation_of.items():
        if key[0] != "cluster":
            found[where, -1] = (f"{key[0]} {key[-1]}", generation)
    return found
