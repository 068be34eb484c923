"""All ways in which a small program's barriers can match: one `Run` for each.

First the greedy run is tried: when `matching.py` shows that it stands for every schedule, it is
the only one. Otherwise every order of the synchronizing steps and of the completions of
asynchronous operations is explored, and the runs that match differently are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import instructions as ins
from ..build import build_graph
from ..matching import unstable
from ..program import BudgetExceeded, Program
from ..readings import Reading
from ..rules import RuleTable
from ..run import BarrierState, Delayed, Run, Runner, Where

MOST_STATES = 20_000
SYNCHRONIZES = (
    ins.Bar, ins.BarWarpSync, ins.ClusterArrive, ins.ClusterWait,
    ins.MbarrierInstruction, ins.CpAsyncMbarrierArrive,
)  # fmt: skip


def runs(program: Program, reading: Reading, table: RuleTable) -> list[Run]:
    """Errors: BudgetExceeded when there are too many states to explore."""
    if not any(_synchronizes(step.instruction) for _, step in program.steps()):
        return [Runner(program).execute()]
    run = Runner(program).execute()
    if _stands_for_all(run, reading, table):
        return [run]
    return list(_explore(program))


def _synchronizes(instruction: ins.Instruction) -> bool:
    return isinstance(instruction, SYNCHRONIZES) or bool(instruction.signals)


def _stands_for_all(run: Run, reading: Reading, table: RuleTable) -> bool:
    if run.stuck or run.misuses or _latecomers(run):
        return False
    return not unstable(build_graph(run, reading, table))


def _latecomers(run: Run) -> bool:
    """Threads that passed a barrier which had let the others go: which ones is open."""
    entered = {
        where for generations in run.generations.values() for g in generations for where in g
    }
    return any(
        where not in entered and not isinstance(run.step(where).instruction, ins.ClusterWait)
        for where in run.generation_of
    )


class Explorer(Delayed):
    """The barrier machine, one move at a time. Completions of operations are moves too."""

    def clone(self) -> Explorer:
        other = Explorer.__new__(Explorer)
        other.program, other.objects = self.program, self.objects
        other.next, other.inside = list(self.next), set(self.inside)
        other.barriers = {b: _copy(s) for b, s in self.barriers.items()}
        other.bars = self.bars.copy()
        other.released, other.unarmed = set(self.released), set(self.unarmed)
        other.flying = dict(self.flying)
        run, old = Run(self.program), self.run
        run.order, run.misuses = list(old.order), list(old.misuses)
        run.phases = {b: [list(p) for p in phases] for b, phases in old.phases.items()}
        run.observed, run.born = dict(old.observed), dict(old.born)
        run.generations = {k: [list(g) for g in gs] for k, gs in old.generations.items()}
        run.generation_of = dict(old.generation_of)
        other.run = run
        return other

    def local(self) -> None:
        """What does not synchronize is done at once: it commutes with everything."""
        for index, agent in enumerate(self.program.agents):
            while self.next[index] < len(agent.steps) and not isinstance(
                agent.steps[self.next[index]].instruction, SYNCHRONIZES
            ):
                self._try(index)

    def moves(self) -> Iterator[Explorer]:
        """The states after one synchronizing step, or after one completion."""
        for arrival in list(self.flying):
            after = self.clone()
            after.land(arrival)
            yield after
        for index, agent in enumerate(self.program.agents):
            if self.next[index] < len(agent.steps):
                after = self.clone()
                if after._try(index) or after.run.generation_of != self.run.generation_of:
                    yield after

    @property
    def key(self) -> tuple[object, ...]:
        """What the future depends on, and what was matched so far."""
        landed = frozenset(
            (barrier, phase, arrival)
            for barrier, phases in self.run.phases.items()
            for phase, arrivals in enumerate(phases)
            for arrival in arrivals
        )
        states = tuple((s.count, s.completed, s.pending, s.tx) for s in self.barriers.values())
        return (
            tuple(self.next), frozenset(self.flying), states, landed,
            frozenset(self.run.observed.items()), frozenset(self.run.generation_of.items()),
            frozenset(self.released),
        )  # fmt: skip


def _copy(state: BarrierState) -> BarrierState:
    return BarrierState(state.count, state.completed, state.pending, state.tx, state.born)


def _explore(program: Program) -> Iterator[Run]:
    start = Explorer(program)
    start.local()
    seen = {start.key}
    stack = [start]
    while stack:
        state = stack.pop()
        moved = False
        for after in state.moves():
            moved = True
            after.local()
            if after.key not in seen:
                seen.add(after.key)
                stack.append(after)
        if len(seen) > MOST_STATES:
            raise BudgetExceeded(f"more than {MOST_STATES} states of the barriers")
        if not moved:
            yield _finish(state)


def _finish(state: Explorer) -> Run:
    run = state.run
    for index, agent in enumerate(state.program.agents):
        if state.next[index] < len(agent.steps):
            run.stuck.append(Where(index, state.next[index]))
    run.counts = {b: s.count for b, s in state.barriers.items() if s.count is not None}
    run.completed = {b: s.completed for b, s in state.barriers.items()}
    return run
