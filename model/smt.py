"""Which matchings of arrivals, phases and waits exist? Constraints for z3.

`Schedules` has a time for each synchronization operation and enumerates the matchings; it is the
second engine's search (`interleavings.py`; the first engine is `causality.py`). z3 is imported when
a question is asked, not when the program starts.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from .operations import BLOCKING, Act, Operation, Operations
from .program import Barrier, BudgetExceeded, Program, TimeLimit
from .run import Where

Formula = Any
"""A z3 expression: z3 has no types."""


@dataclass(frozen=True)
class Schedule:
    """One maximal schedule: its operations in order, the phase in which each arrival landed, and
    the number of completed phases that each wait saw."""

    order: tuple[Operation, ...]
    landed: dict[tuple[Where, int], int]
    observed: dict[Where, int]


@dataclass
class Effort:
    """How much z3 may work: `units` of its own count (`rlimit`; about 60 million a second), so that
    an answer is the same from run to run, and the user's time limit, if there is one."""

    units: int
    deadline: float | None = None

    def satisfiable(self, z3: Any, solver: Any, *assumed: Formula) -> bool:
        """Ask z3. Errors: BudgetExceeded when it does not know; TimeLimit past the deadline;
        KeyboardInterrupt when it was interrupted, which z3 reports as not knowing."""
        before = _worked(solver)
        solver.set("rlimit", max(1, self.units))
        solver.set("timeout", self._milliseconds())
        answer = solver.check(*assumed)
        self.units -= max(0, _worked(solver) - before)
        if answer == z3.unknown:
            if "interrupt" in solver.reason_unknown():
                raise KeyboardInterrupt
            self.check()
            raise BudgetExceeded("the search for schedules was cut at its limit of work")
        return bool(answer == z3.sat)

    def check(self) -> None:
        """Errors: TimeLimit past the deadline."""
        self._milliseconds()

    def _milliseconds(self) -> int:
        if self.deadline is None:
            return 2**32 - 1  # z3's word for no limit
        left = int((self.deadline - time.monotonic()) * 1000)
        if left <= 0:
            raise TimeLimit("the time limit was reached while searching schedules")
        return left


def _worked(solver: Any) -> int:
    """Units of work that z3 has spent so far."""
    statistics = solver.statistics()
    keys = statistics.keys()
    return int(statistics.get_key_value("rlimit count")) if "rlimit count" in keys else 0


class Schedules:
    """All maximal schedules, up to matching. `together`: lanes of a warp advance in step."""

    def __init__(self, program: Program, found: Operations, together: bool, effort: Effort) -> None:
        import z3

        self.z3: Any = z3
        self.program = program
        self.effort = effort
        self.operations = found
        self.solver: Any = z3.SimpleSolver()
        self.solver.set(relevancy=0, **{"arith.solver": 2, "phase_selection": 0})
        self.time: list[Formula] = [z3.Int(f"time {op.number}") for op in found.every]
        self.executed: list[Formula] = [z3.BoolVal(True)] * len(found.every)
        self.reached: list[Formula] = [z3.BoolVal(True)] * len(found.every)
        self.landed: dict[tuple[Operation, int], Formula] = {}
        self.lost: dict[Operation, Formula] = {}
        self.observed: dict[tuple[Operation, int], Formula] = {}
        self.awaited: dict[Operation, list[Operation]] = {}
        self.phases: dict[Hashable, _Phases] = {}
        self.lives: dict[Hashable, _Life] = {}
        self._program_order()
        for cell in self._cells():
            self.effort.check()
            self._cell(cell)
        self._cluster()
        if together:
            self._in_step()

    def _require(self, *formulas: Formula) -> None:
        self.solver.add(*formulas)

    # --- order -----------------------------------------------------------------------------------

    def _program_order(self) -> None:
        """Agents stop only at operations that block; completions come any time after issue."""
        z3 = self.z3
        for chain in self.operations.chains:
            alive = z3.BoolVal(True)
            for before, operation in zip([None, *chain], chain, strict=False):
                number = operation.number
                self.reached[number] = alive
                if operation.kind in BLOCKING:
                    passed = z3.Bool(f"passed {number}")
                    self._require(z3.Implies(passed, alive))
                    alive = passed
                self.executed[number] = alive
                if before is not None:
                    self._require(self.time[before.number] < self.time[number])
        for issue, completion in self.operations.flights:
            self.executed[completion.number] = self.executed[issue.number]
            self._require(self.time[issue.number] < self.time[completion.number])

    # --- barriers --------------------------------------------------------------------------------

    def _cells(self) -> list[Hashable]:
        return list(dict.fromkeys(op.cell for op in self.operations.every if op.cell is not None))

    def _cell(self, cell: Hashable) -> None:
        mine = [operation for operation in self.operations.every if operation.cell == cell]
        arrivals = [operation for operation in mine if operation.kind is Act.ARRIVE]
        needs = self._needs(cell, mine, arrivals)
        inits = [operation for operation in mine if operation.kind in (Act.INIT, Act.INVAL)]
        life = self.lives[cell] = _Life(self, cell, inits)
        phases = self.phases[cell] = _Phases(self, str(len(self.landed)), arrivals, needs, life)
        for operation in mine:
            if operation.kind is Act.WAIT:
                self._wait(operation, phases, life)
            elif operation.kind is Act.PASS:
                self._pass(operation, phases)

    def _needs(self, cell: Hashable, mine: list[Operation], arrivals: list[Operation]) -> list[int]:
        """How many arrivals complete a phase, as each arrival sees it."""
        if not isinstance(cell, Barrier):
            return [operation.need for operation in arrivals]
        count = cell.count
        for operation in mine:
            if operation.kind is Act.INIT:
                count = operation.need
        return [max(count or 1, 1)] * len(arrivals)

    def _wait(self, wait: Operation, phases: _Phases, life: _Life) -> None:
        """try_wait.parity: passes while the number of completed phases has the other parity."""
        z3 = self.z3
        now, passed = self.time[wait.number], self.executed[wait.number]
        seen = []
        for count in range(phases.most + 1):
            if count % 2 == wait.parity:
                continue
            literal = z3.Bool(f"observed {wait.number} {count}")
            self.observed[wait, count] = literal
            seen.append(literal)
            self._require(z3.Implies(literal, z3.And(passed, phases.current(count, now))))
        self._require(z3.Implies(passed, z3.And(z3.Or(seen), life.alive_at(now))))
        same = [phases.final(n) for n in range(phases.most + 1) if n % 2 == wait.parity]
        blocked = z3.Or(life.dead_at_last(), *same)
        stuck = z3.And(self.reached[wait.number], z3.Not(passed))
        self._require(z3.Implies(stuck, blocked))

    def _pass(self, leave: Operation, phases: _Phases) -> None:
        """A waiter leaves a named barrier when the generation that it entered is complete."""
        z3 = self.z3
        entry = next(op for op in phases.arrivals if op.where == leave.where)
        now, passed = self.time[leave.number], self.executed[leave.number]
        for number in range(phases.most + 1):
            inside = self.landed[entry, number]
            complete = phases.completed_before(number, now)
            self._require(z3.Implies(z3.And(inside, passed), complete))
            self._require(z3.Implies(z3.And(inside, z3.Not(passed)), z3.Not(phases.done(number))))

    def _cluster(self) -> None:
        """barrier.cluster.wait passes when every thread has arrived or exited (§9.7.15.3)."""
        z3 = self.z3
        for chain in self.operations.chains:
            waits = [op for op in chain if op.kind is Act.CLUSTER_WAIT]
            for generation, wait in enumerate(waits):
                self.awaited[wait] = self._awaited(generation)
                now, passed = self.time[wait.number], self.executed[wait.number]
                self._require(z3.Implies(passed, z3.Not(self._blocked_at(wait, now))))
                there = [self.executed[op.number] for op in self.awaited[wait]]
                stuck = z3.And(self.reached[wait.number], z3.Not(passed))
                self._require(z3.Implies(stuck, z3.Not(z3.And(there))))

    def _awaited(self, generation: int) -> list[Operation]:
        """Each agent's arrival of the generation; the last thing that it does, if it has none."""
        found = []
        for chain in self.operations.chains:
            arrivals = [op for op in chain if op.kind is Act.CLUSTER_ARRIVE]
            if generation < len(arrivals):
                found.append(arrivals[generation])
            elif chain:
                found.append(chain[-1])
        return found

    # --- lanes in step ----------------------------------------------------------------------

    def _in_step(self) -> None:
        """A warp's lanes take their steps in order of position; one may go ahead of another only
        while that one is blocked."""
        warps: dict[tuple[int, int], list[list[Operation]]] = defaultdict(list)
        for agent, chain in zip(self.program.agents, self.operations.chains, strict=True):
            if agent.lanes < 32:
                warps[agent.cta, agent.warp].append(chain)
        for chains in warps.values():
            for mine in chains:
                for other in chains:
                    if other is not mine:
                        self._behind(mine, other)

    def _behind(self, mine: list[Operation], other: list[Operation]) -> None:
        z3 = self.z3
        for operation in mine:
            now = self.time[operation.number]
            earlier = [op for op in other if self._position(op) < self._position(operation)]
            if not earlier:
                continue
            done = [self._done_before(op, now) for op in earlier]
            waiting = [
                z3.And(*done[:index], z3.Not(done[index]), self._blocked_at(op, now))
                for index, op in enumerate(earlier)
                if op.kind in BLOCKING
            ]
            free = z3.Or(z3.And(done), *waiting)
            self._require(z3.Implies(self.executed[operation.number], free))

    def _done_before(self, operation: Operation, now: Formula) -> Formula:
        number = operation.number
        return self.z3.And(self.executed[number], self.time[number] < now)

    def _position(self, operation: Operation) -> float:
        """Positions order the steps of a warp; a barrier is left after it has been entered."""
        agent, step = operation.where.agent, operation.where.step
        position = self.program.agents[agent].steps[step].position
        return (position if position >= 0 else step) + (operation.kind is Act.PASS) / 2

    def _blocked_at(self, operation: Operation, now: Formula) -> Formula:
        """Would a blocking operation not pass just before this time?"""
        z3 = self.z3
        if operation.kind is Act.CLUSTER_WAIT:
            return z3.Not(z3.And([self._done_before(op, now) for op in self.awaited[operation]]))
        phases = self.phases[operation.cell]
        numbers = range(phases.most + 1)
        if operation.kind is Act.WAIT:
            same = [phases.during(n, now) for n in numbers if n % 2 == operation.parity]
            return z3.Or(z3.Not(self.lives[operation.cell].alive_at(now)), *same)
        entry = next(op for op in phases.arrivals if op.where == operation.where)
        return z3.Or(
            [
                z3.And(self.landed[entry, n], z3.Not(phases.completed_before(n, now)))
                for n in numbers
            ]
        )

    # --- answers ---------------------------------------------------------------------------------

    def next(self) -> Schedule | None:
        """A schedule with a matching that was not given before, or None when there is none.

        Errors: BudgetExceeded when the effort is spent first.
        """
        if not self.effort.satisfiable(self.z3, self.solver):
            return None
        model = self.solver.model()
        self._block(model)
        return self._schedule(model)

    def _block(self, model: Any) -> None:
        """No more schedules with the matching of `model`: arrivals, waits and stuck agents."""
        z3 = self.z3
        literals = [*self.landed.values(), *self.lost.values(), *self.observed.values()]
        chosen = [literal for literal in literals if self._true(model, literal)]
        for operation in self.operations.every:
            if operation.kind in BLOCKING:
                passed = self.executed[operation.number]
                reached = self._true(model, self.reached[operation.number])
                if reached and not self._true(model, passed):
                    chosen.append(z3.Not(passed))
        self._require(z3.Or([z3.Not(literal) for literal in chosen]))

    def _true(self, model: Any, formula: Formula) -> bool:
        return bool(self.z3.is_true(model.eval(formula, model_completion=True)))

    def _schedule(self, model: Any) -> Schedule:
        executed = [
            (model.eval(self.time[op.number], model_completion=True).as_long(), op.number, op)
            for op in self.operations.every
            if self._true(model, self.executed[op.number])
        ]
        landed = {
            op.arrival: phase
            for (op, phase), literal in self.landed.items()
            if self._true(model, literal)
        }
        observed = {
            op.where: count
            for (op, count), literal in self.observed.items()
            if self._true(model, literal)
        }
        return Schedule(tuple(op for _, _, op in sorted(executed)), landed, observed)


class _Life:
    """From the init of a barrier to its inval; arrivals outside are lost, waits block."""

    def __init__(self, schedules: Schedules, cell: Hashable, ends: list[Operation]) -> None:
        self.schedules = schedules
        self.init = next((op for op in ends if op.kind is Act.INIT), None)
        self.inval = next((op for op in ends if op.kind is Act.INVAL), None)
        self.never = isinstance(cell, Barrier) and cell.count is None and self.init is None

    def alive_at(self, now: Formula) -> Formula:
        schedules = self.schedules
        z3 = schedules.z3
        conditions = [z3.BoolVal(not self.never)]
        if self.init is not None:
            number = self.init.number
            conditions += [schedules.executed[number], schedules.time[number] < now]
        if self.inval is not None:
            number = self.inval.number
            ended = z3.And(schedules.executed[number], schedules.time[number] <= now)
            conditions.append(z3.Not(ended))
        return z3.And(conditions)

    def apart(self, now: Formula) -> list[Formula]:
        """An arrival is before or after the ends of the life, never at the same time."""
        ends = [op for op in (self.init, self.inval) if op is not None]
        return [self.schedules.time[op.number] != now for op in ends]

    def dead_at_last(self) -> Formula:
        z3, executed = self.schedules.z3, self.schedules.executed
        unborn = [z3.Not(executed[self.init.number])] if self.init is not None else []
        gone = [executed[self.inval.number]] if self.inval is not None else []
        return z3.Or(z3.BoolVal(self.never), *unborn, *gone)


class _Phases:
    """The phases of one barrier: when each completes, and which arrivals land in it."""

    def __init__(
        self,
        schedules: Schedules,
        name: str,
        arrivals: list[Operation],
        needs: list[int],
        life: _Life,
    ) -> None:
        self.schedules = schedules
        self.z3: Any = schedules.z3
        self.name = name
        self.arrivals = arrivals
        self.needs = needs
        self.counts: dict[Operation, Formula] = {}
        """It is executed, in the barrier's life."""
        counted = sum(max(operation.count, 0) for operation in arrivals)
        self.most = counted // min(needs) if needs else 0
        """No more phases than this can complete."""
        self._done = [self.z3.Bool(f"done {name} {n}") for n in range(self.most)]
        self._end = [self.z3.Int(f"end {name} {n}") for n in range(self.most)]
        self._in_order()
        self._landings(life)
        last = [self._last(number) for number in range(self.most)]
        if self._uniform():
            self._count()
        else:
            self._sums(last)

    # --- what others ask -------------------------------------------------------------------------

    def done(self, number: int) -> Formula:
        return self._done[number] if number < self.most else self.z3.BoolVal(False)

    def completed_before(self, number: int, now: Formula) -> Formula:
        if number >= self.most:
            return self.z3.BoolVal(False)
        return self.z3.And(self._done[number], self._end[number] < now)

    def current(self, count: int, now: Formula) -> Formula:
        """At `now`, exactly `count` phases are complete."""
        conditions = [] if count == 0 else [self.completed_before(count - 1, now)]
        if count < self.most:
            later = self.z3.Implies(self._done[count], now < self._end[count])
            conditions.append(later)
        return self.z3.And(conditions)

    def final(self, count: int) -> Formula:
        """In the end, exactly `count` phases are complete."""
        before = self.z3.BoolVal(True) if count == 0 else self._done[count - 1]
        return self.z3.And(before, self.z3.Not(self.done(count)))

    # --- constraints -----------------------------------------------------------------------------

    def _require(self, *formulas: Formula) -> None:
        self.schedules.solver.add(*formulas)

    def _now(self, arrival: Operation) -> Formula:
        return self.schedules.time[arrival.number]

    def _land(self, arrival: Operation, number: int) -> Formula:
        return self.schedules.landed[arrival, number]

    def _in_order(self) -> None:
        for number in range(1, self.most):
            self._require(self.z3.Implies(self._done[number], self._done[number - 1]))
            self._require(self._end[number - 1] < self._end[number])

    def _landings(self, life: _Life) -> None:
        """Each arrival lands in the current phase, or is lost outside the barrier's life."""
        z3 = self.z3
        for arrival in self.arrivals:
            executed = self.schedules.executed[arrival.number]
            alive = life.alive_at(self._now(arrival))
            self.counts[arrival] = z3.And(executed, alive)
            self._require(*life.apart(self._now(arrival)))
            if life.never or life.init is not None or life.inval is not None:
                self.schedules.lost[arrival] = z3.And(executed, z3.Not(alive))
            places = []
            for number in range(self.most + 1):
                place = z3.Bool(f"landed {arrival.number} {number}")
                self.schedules.landed[arrival, number] = place
                places.append(place)
                self._require(z3.Implies(place, self.counts[arrival]))
                self._require(z3.Implies(place, self.during(number, self._now(arrival))))
            self._require(z3.Implies(self.counts[arrival], z3.Or(places)))

    def during(self, number: int, now: Formula) -> Formula:
        """After the phase before, and not after this one."""
        conditions = []
        if number:
            conditions.append(self.completed_before(number - 1, now))
        if number < self.most:
            conditions.append(self.z3.Implies(self._done[number], now <= self._end[number]))
        return self.z3.And(conditions)

    def _last(self, number: int) -> list[Formula]:
        """A phase ends with one arrival of its own: for each arrival, is it the one?"""
        z3 = self.z3
        last = []
        for arrival in self.arrivals:
            literal = z3.Bool(f"last {self.name} {number} {arrival.number}")
            here, now, end = self._land(arrival, number), self._now(arrival), self._end[number]
            self._require(z3.Implies(literal, z3.And(self._done[number], here, end <= now)))
            earlier = z3.Or(literal, z3.Not(self._done[number]), now < end)
            self._require(z3.Implies(here, earlier))
            last.append(literal)
        self._require(z3.Implies(self._done[number], z3.Or(last)), z3.AtMost(*last, 1))
        return last

    def _uniform(self) -> bool:
        """Arrivals of one size, which divides the count, and no transaction bytes."""
        sizes = {operation.count for operation in self.arrivals}
        if len(sizes) != 1 or len(set(self.needs)) != 1 or any(op.tx for op in self.arrivals):
            return False
        (size,) = sizes
        return size > 0 and self.needs[0] % size == 0

    def _count(self) -> None:
        """A phase is complete when it has its arrivals, not before, and never takes more."""
        z3 = self.z3
        full = self.needs[0] // self.arrivals[0].count
        for number in range(self.most + 1):
            here = [(self._land(arrival, number), 1) for arrival in self.arrivals]
            complete = self.done(number)
            self._require(z3.PbLe(here, full))
            self._require(z3.Implies(complete, z3.PbGe(here, full)))
            self._require(z3.Implies(z3.Not(complete), z3.PbLe(here, full - 1)))

    def _sums(self, last: list[list[Formula]]) -> None:
        """Running sums: a phase completes at the first arrival that leaves nothing pending and a
        tx-count of zero (PTX ISA §9.7.15.16.6)."""
        z3 = self.z3
        base = [z3.Int(f"base {self.name} {number}") for number in range(self.most + 1)]
        self._require(base[0] == 0)
        for index, arrival in enumerate(self.arrivals):
            arrived, bytes_left = self._running(index)
            for number in range(self.most + 1):
                full = z3.And(arrived - base[number] >= self.needs[index], bytes_left == 0)
                here = self._land(arrival, number)
                if number == self.most:
                    self._require(z3.Implies(here, z3.Not(full)))
                    continue
                ends = last[number][index]
                self._require(z3.Implies(ends, z3.And(full, base[number + 1] == arrived)))
                self._require(z3.Implies(z3.And(here, z3.Not(ends)), z3.Not(full)))

    def _running(self, index: int) -> tuple[Formula, Formula]:
        """Arrivals and bytes up to and including one arrival; ties go by number."""
        z3 = self.z3
        arrival = self.arrivals[index]
        counts, sizes = [z3.IntVal(arrival.count)], [z3.IntVal(arrival.tx)]
        for number, other in enumerate(self.arrivals):
            if number == index:
                continue
            now, then = self._now(arrival), self._now(other)
            earlier = then <= now if other.number < arrival.number else then < now
            taken = z3.And(self.counts[other], earlier)
            if other.count:
                counts.append(z3.If(taken, other.count, 0))
            if other.tx:
                sizes.append(z3.If(taken, other.tx, 0))
        return z3.Sum(counts), z3.Sum(sizes)
