"""The interleavings engine: every way in which arrivals, phases and waits can match.

`check.py` judges one matching and needs to know that it is the only one. Where the schedule can
change it (a wait that laps, an arrival in another phase, a deadlock that only some schedules
reach), this engine asks z3 for schedules until no matching is left, replays each on the barrier
machine of `run.py`, and judges the pairs of every matching. See `smt.py` for the constraints.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from . import instructions as ins
from .check import Checker, Question
from .deadlock import explain_deadlock
from .explain import is_read, place_of
from .graph import AccessEvent, Graph
from .judge import Judgement, hazard
from .program import Barrier, BudgetExceeded, Program
from .readings import LANES_TOGETHER
from .run import Run, Runner, Where, run_once
from .smt import Core, Kind, Operation, Operations, Schedule, Schedules, operations, pair
from .verdict import Finding, ScheduleRow

MAX_OPERATIONS = 200
MAX_MATCHINGS = 64
MAX_CORES = 6
SECONDS = 5.0


class Replay(Runner):
    """Runs a program in the order of a schedule; completions land when the schedule says."""

    def __init__(self, program: Program, found: Operations, together: bool) -> None:
        super().__init__(program)
        self.synchronizing = {operation.where for operation in found.every}
        self.together = together
        self.flying: dict[tuple[Where, int], tuple[Barrier, int, int, int]] = {}

    def replay(self, schedule: Schedule) -> Run:
        """Errors: BudgetExceeded when the machine does not follow (a limit of the constraints)."""
        for team in self._mates():
            self._local(team)
        for operation in schedule.order:
            self._perform(operation)
        run = self.execute()
        if self.flying or not _follows(run, schedule):
            raise BudgetExceeded("a schedule found by z3 does not replay on the barrier machine")
        return run

    def _arrive(
        self, where: Where, signal: int, barrier: Barrier, count: int, expect: int, complete: int
    ) -> None:
        if signal >= 0:
            self.flying[where, signal] = (barrier, count, expect, complete)
        else:
            super()._arrive(where, signal, barrier, count, expect, complete)

    def _perform(self, operation: Operation) -> None:
        index, step = operation.where.agent, operation.where.step
        if operation.signal >= 0:
            landing = self.flying.pop(operation.arrival, None)
            if landing is not None:
                super()._arrive(operation.where, operation.signal, *landing)
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
    landed = {
        arrival: phase
        for phases in run.phases.values()
        for phase, arrivals in enumerate(phases)
        for arrival in arrivals
    }
    for where, (key, generation) in run.generation_of.items():
        if key[0] != "cluster":
            landed[where, -1] = generation
    return landed == schedule.landed and run.observed == schedule.observed


def matchings(
    program: Program, deadline: float, limit: int = MAX_MATCHINGS, together: bool = False
) -> Iterator[Run]:
    """One run for each way in which arrivals, phases and waits can match; all, when it ends.

    `deadline` is a value of `time.monotonic()`. `together`: the lanes of a warp advance in step.
    Errors: BudgetExceeded when the program is too large or a limit stops the search.
    """
    found = operations(program)
    if len(found.every) > MAX_OPERATIONS:
        raise BudgetExceeded(
            f"{len(found.every)} synchronization operations; schedules are searched up to "
            f"{MAX_OPERATIONS}"
        )
    schedules = Schedules(program, found, together)
    number = 0
    while (schedule := schedules.next(deadline)) is not None:
        if number >= limit:
            raise BudgetExceeded(f"more than {limit} matchings of arrivals and waits")
        number += 1
        yield Replay(program, found, together).replay(schedule)
