"""The second engine: z3 looks for executions that the axioms allow.

It shares with the enumerator the instructions' event graph, the matchings of barriers and the text
of the axioms, and nothing that knows values: paths, reads-from, coherence and causality are
formulas (`paths.py`, `formula.py`), so that the two check each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import z3

from ..program import BudgetExceeded
from .code import (
    Act,
    Final,
    Quantity,
    RegisterAt,
    Test,
    holds,
    quantities,
)
from .domains import all_paths
from .enumerate import Query
from .formula import Execution
from .outcome import Outcome
from .path import Path
from .path_dependencies import dependent
from .races import RaceKey, races_of
from .settings import Setting, Settings
from .symbols import (
    Formula,
    Value,
    compared,
    condition_formula,
    corrections,
    disjunction,
    has_opaque,
    number,
    opaque_terms,
    require,
    true_in,
)

MOST_STATES = 1_500
"""Each costs the solver a question."""
UNITS = 60_000_000
"""z3's work for one question, in its own count (about a second)."""
MOST_QUESTIONS = 100_000
"""Of one test."""

Chosen = tuple[Path, ...]


def solve(query: Query, outcome: Outcome) -> None:
    """Fills `outcome` with states and races, or with hangs (property "termination")."""
    solver = Solver(query, outcome)
    try:
        if outcome.asked == "termination":
            solver.hangs()
        else:
            solver.states()
    except BudgetExceeded as stop:
        solver.cut(str(stop))
    outcome.candidates = solver.checks


class Solver:
    """The search for one query: each combination of paths, in each setting."""

    def __init__(self, query: Query, outcome: Outcome) -> None:
        self.query = query
        self.test: Test = query.test
        self.outcome = outcome
        self.settings = Settings(query.test, query.reading, query.table, query.rows)
        self.opaque = has_opaque(query.test)
        self.checks = 0
        self.seen: dict[tuple[int, ...], None] = {}
        self.racing: dict[RaceKey, None] = {}
        self.problems: dict[int, Problem] = {}
        filtered = quantities(self.test.filter)
        self.on_registers = not any(isinstance(each, Final) for each in filtered)

    def cut(self, reason: str) -> None:
        self.outcome.complete = False
        self.outcome.cut += (reason,)

    def paths(self) -> list[list[Path]]:
        """The complete paths of each thread; says which loops the bound cut."""
        found = all_paths(self.test, self.query.bound, self.query.in_time)
        for reason in dict.fromkeys(path.cut for each in found for path in each if path.cut):
            self.cut(reason)
        return [[path for path in each if not path.cut] for each in found]

    def problem(self, setting: Setting) -> Problem:
        found = self.problems.get(id(setting))
        if found is None:
            found = self.problems[id(setting)] = Problem(self, setting)
        return found

    # --- states ------------------------------------------------------------------------------

    def states(self) -> None:
        finished = [[path for path in each if path.repeats < 0] for each in self.paths()]
        try:
            for chosen in product(*finished):
                self.query.in_time()
                for setting in self.settings.of(chosen):
                    self.outcome.unfinished |= bool(setting.stuck)
                    if not setting.stuck:
                        self._explore(self.problem(setting), chosen)
        finally:
            self._report()

    def _explore(self, problem: Problem, chosen: Chosen) -> None:
        with problem.on(chosen):
            registers = _registers(self.test, chosen)
            if self.on_registers:
                problem.require(condition_formula(self.test.filter, registers))
            self._races(problem, chosen)
            finals: dict[Quantity, Value] = {
                each: z3.Int(f"final {each.location}")
                for each in self.test.observed
                if isinstance(each, Final)
            }
            for each, value in finals.items():
                problem.require(self._last(problem, each, value))
            quantity: dict[Quantity, Value] = {**registers, **finals}
            if not self.on_registers:
                problem.require(condition_formula(self.test.filter, quantity))
            self._enumerate(problem, [quantity[each] for each in self.test.observed])

    def _last(self, problem: Problem, each: Quantity, value: Value) -> Formula:
        assert isinstance(each, Final)
        return problem.execution.last(self.test.named[each.location].word, value)

    def _enumerate(self, problem: Problem, observed: list[Value]) -> None:
        differs = _Difference(observed)
        for state in self.seen:
            problem.require(differs.of(state))
        while (model := problem.model()) is not None:
            state = tuple(number(model, value) for value in observed)
            self.seen[state] = None
            self.outcome.executions += 1
            if len(self.seen) > MOST_STATES:
                raise BudgetExceeded(f"more than {MOST_STATES} final states")
            problem.require(differs.of(state))

    def _report(self) -> None:
        self.outcome.states = [
            dict(zip(self.test.observed, state, strict=True)) for state in sorted(self.seen)
        ]
        satisfied = [holds(self.test.condition, state) for state in self.outcome.states]
        self.outcome.positive = sum(satisfied)
        self.outcome.negative = len(satisfied) - self.outcome.positive
        self.outcome.races = races_of(self.test, self.racing)

    # --- races -------------------------------------------------------------------------------

    def _races(self, problem: Problem, chosen: Chosen) -> None:
        """Adds the pairs of instructions that race in some execution."""
        racing = {pair: self._key(problem, chosen, pair) for pair in problem.execution.racing}
        while True:
            new = {pair: key for pair, key in racing.items() if key not in self.racing}
            if not new:
                return
            some = disjunction(problem.execution.racing[pair] for pair in new)
            with problem.scope():
                problem.require(some)
                model = problem.model()
            if model is None:
                return
            for pair, key in new.items():
                if true_in(model, problem.execution.racing[pair]):
                    self.racing[key] = None

    def _key(self, problem: Problem, chosen: Chosen, pair: tuple[int, int]) -> RaceKey:
        a, b = (problem.execution.skeleton.accesses[event] for event in pair)
        acts = [_act(chosen, event.where.agent, event.where.step) for event in (a, b)]
        array = str(a.access.region.array)
        return (a.where.agent, acts[0], b.where.agent, acts[1], array)

    # --- termination -------------------------------------------------------------------------

    def hangs(self) -> None:
        """Fair executions that do not end: some threads wait at a barrier for ever, or repeat a
        loop that changes nothing, whose reads see coherence-maximal writes."""
        found: dict[str, None] = {}
        try:
            for chosen in product(*self.paths()):
                self.query.in_time()
                for setting in self.settings.of(chosen):
                    text = self._hang(setting, chosen)
                    open_question = not setting.ends(chosen) and text not in found
                    if open_question and self._possible(setting, chosen):
                        found[text] = None
        finally:
            self.outcome.hangs = tuple(sorted(found))

    def _possible(self, setting: Setting, chosen: Chosen) -> bool:
        problem = self.problem(setting)
        lasting: list[int] = []
        silent: set[int] = set()
        for where, (reads, writes) in setting.skeleton.events_of.items():
            if 0 <= chosen[where.agent].repeats <= where.step:
                lasting += reads
                silent |= set(writes)
        with problem.on(chosen):
            for read in lasting:
                for each in problem.execution.lasting(read, silent):
                    problem.require(each)
            return problem.model() is not None

    def _hang(self, setting: Setting, chosen: Chosen) -> str:
        parts = []
        for agent, (thread, path) in enumerate(zip(self.test.threads, chosen, strict=True)):
            if agent in setting.stuck and path.repeats < 0:
                act = _act(chosen, agent, setting.executed[agent])
                parts.append(f"{thread.name} waits at line {act.place.line} ({act.text})")
            elif path.repeats >= 0:
                inside = path.repeats < len(path.steps)
                line = path.steps[path.repeats].act.place.line if inside else 0
                where = f"line {line}" if inside else "its loop"
                parts.append(f"{thread.name} repeats {where} for ever")
        return "; ".join(parts)


class Problem:
    """The formula of one setting in a solver, to which paths are added and taken away."""

    def __init__(self, search: Solver, setting: Setting) -> None:
        self.search = search
        self.execution = Execution(setting, search.query.axioms)
        self.solver: Any = z3.SimpleSolver()
        self.solver.set(rlimit=UNITS)
        self.opaque: list[Any] = []
        for each in self.execution.formulas():
            self.require(each)

    def require(self, condition: Formula) -> None:
        require(self.solver, condition)

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.solver.push()
        try:
            yield
        finally:
            self.solver.pop()

    @contextmanager
    def on(self, chosen: Chosen) -> Iterator[None]:
        """With what these paths say: conditions, what is written, dependencies."""
        with self.scope():
            terms = list(self._said(chosen))
            if self.search.opaque:
                registers = _registers(self.search.test, chosen)
                self.opaque = opaque_terms([*terms, *registers.values()])
            for each in terms:
                self.require(each)
            yield

    def _said(self, chosen: Chosen) -> Iterator[Formula]:
        execution = self.execution
        for path in chosen:
            yield from path.conditions
        for where, (_, writes) in execution.skeleton.events_of.items():
            values = chosen[where.agent].steps[where.step].writes
            for write, value in zip(writes, values, strict=True):
                yield compared("eq", execution.written[write], value)
        yield from execution.thin_air(dependent(execution.skeleton, chosen))

    def model(self) -> Any:
        """A model in which the opaque functions are right, or None.

        Errors: BudgetExceeded, TimeLimit."""
        while True:
            self.search.query.in_time()
            self.search.checks += 1
            if self.search.checks > MOST_QUESTIONS:
                raise BudgetExceeded(f"more than {MOST_QUESTIONS} questions to the solver")
            if not self._satisfiable():
                return None
            model = self.solver.model()
            wrong = list(corrections(model, self.opaque))
            if not wrong:
                return model
            for fact in wrong:
                self.require(fact)

    def _satisfiable(self) -> bool:
        """Errors: KeyboardInterrupt when z3 was interrupted, which it reports as not knowing."""
        answer = self.solver.check()
        if answer == z3.unknown:
            if "interrupt" in self.solver.reason_unknown():
                raise KeyboardInterrupt
            raise BudgetExceeded("the solver was cut at its limit of work")
        return bool(answer == z3.sat)


# --- pieces ---------------------------------------------------------------------------------------


def _act(chosen: Chosen, agent: int, step: int) -> Act:
    return chosen[agent].steps[step].act


def _registers(test: Test, chosen: Chosen) -> dict[Quantity, Value]:
    """The observed registers at the ends of the paths."""
    paths = dict(zip((thread.name for thread in test.threads), chosen, strict=True))
    return {
        each: paths[each.thread].value(each.register) if each.thread in paths else 0
        for each in test.observed
        if isinstance(each, RegisterAt)
    }


class _Difference:
    """Formulas that say that the observed values are not those of a state."""

    def __init__(self, observed: Sequence[Value]) -> None:
        self.observed = observed
        self.made: dict[tuple[int, int], Formula] = {}

    def of(self, state: Sequence[int]) -> Formula:
        return disjunction(self._unequal(index, known) for index, known in enumerate(state))

    def _unequal(self, index: int, known: int) -> Formula:
        found = self.made.get((index, known))
        if found is None:
            found = compared("ne", self.observed[index], known)
            self.made[index, known] = found
        return found
