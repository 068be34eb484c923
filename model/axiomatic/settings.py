"""From runs of the threads to skeletons: each way in which their barriers can match is one setting.

Both engines start here: what they share is the instructions, never the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from .. import instructions as ins
from ..composition import ROWS, Row
from ..instructions import Instruction
from ..program import Barrier, InputError, Space
from ..readings import Reading
from ..rules import TABLE, RuleTable
from ..run import Run
from .code import Act, Test, Thread
from .order import Order
from .schedules import runs
from .skeleton import Skeleton, make_program

PARK = ins.MbarrierTryWait(Barrier("never", None, 0, None))
"""Where a thread stays that repeats a loop for ever: it neither goes on nor exits."""

Code = tuple[tuple[Instruction, ...], ...]


class Executed(Protocol):
    """An executed instruction, as a setting needs it."""

    @property
    def act(self) -> Act: ...
    @property
    def instruction(self) -> Instruction: ...


class Ran(Protocol):
    """One run of a thread. `repeats`: the step from which it goes on for ever, if not -1; `park`:
    the wait that must fail for that, if there is one."""

    @property
    def steps(self) -> Sequence[Executed]: ...
    @property
    def repeats(self) -> int: ...
    @property
    def park(self) -> Instruction | None: ...


@dataclass
class Setting:
    """A skeleton with its order, and how many steps of each thread are executed in it."""

    skeleton: Skeleton
    order: Order
    executed: tuple[int, ...]
    stuck: tuple[int, ...]

    def ends(self, traces: Sequence[Ran]) -> bool:
        """Does every thread end? One that repeats goes on, unless the wait it tests passes."""
        return not self.stuck and all(t.repeats < 0 or t.park is not None for t in traces)

    _sources: dict[bool, dict[int, list[int]]] = field(default_factory=dict, init=False)
    """Threads that wait for ever."""

    def sources(self, prune: bool) -> dict[int, list[int]]:
        """The writes that each read may see: with `prune` those which causality without ties
        lets it see, else all of its word."""
        if prune not in self._sources:
            self._sources[prune] = {
                read: [write for write in writes if write != read]
                for reads, writes in self.skeleton.by_region.values()
                for read in reads
            }
            if prune:
                for read, writes in self._sources[prune].items():
                    writes[:] = [write for write in writes if self._visible(read, write, writes)]
        return self._sources[prune]

    def _visible(self, read: int, write: int, writes: list[int]) -> bool:
        """The read does not come before the write, nor after one that overwrote it."""
        base = self.order.given(frozenset()).accesses
        initial = self.skeleton.initial[self.skeleton.region(read)]
        if write != initial and base[write] >> read & 1:
            return False
        return not any(
            other not in (write, read, initial)
            and base[read] >> other & 1
            and (write == initial or base[other] >> write & 1)
            for other in writes
        )


@dataclass
class Settings:
    """The settings of instruction sequences, made once for each."""

    test: Test
    reading: Reading
    table: RuleTable = TABLE
    rows: tuple[Row, ...] = ROWS
    _known: dict[Code, list[Setting]] = field(default_factory=dict)
    _rows: list[list[int]] = field(default_factory=list)

    def of(self, traces: Sequence[Ran]) -> list[Setting]:
        """Finished and stuck settings of these runs. Errors: BudgetExceeded."""
        code = self._counted(traces)
        if code not in self._known:
            self._require_legal(traces)
            self._rows = [[done.act.place.line for done in trace.steps] for trace in traces]
            self._known[code] = self._make(code)
        return self._known[code]

    def _require_legal(self, traces: Sequence[Ran]) -> None:
        """Errors: InputError for what the ISA version, or the thread, cannot execute."""
        for thread, trace in zip(self.test.threads, traces, strict=True):
            for done in trace.steps:
                since, place = ins.since(done.instruction), done.act.place
                problem = self._out_of_reach(thread, done.instruction)
                if not self.reading.since(since):
                    problem = f"is not in ISA {self.reading.isa}; the model has it since {since}"
                if problem:
                    raise InputError(
                        f"`{done.act.text}` {problem}",
                        f"{self.test.path or self.test.name}:{place.line}:{place.column}",
                    )

    def _out_of_reach(self, thread: Thread, instruction: Instruction) -> str:
        """Shared memory is its cluster's, and only the CTA of an mbarrier waits at it
        (§9.7.15.16)."""
        if isinstance(instruction, ins.MbarrierTryWait) and instruction.barrier.cta != thread.cta:
            return "waits at the mbarrier of another CTA, which only its own CTA can"
        places = {each.cta: (each.cluster, each.gpu) for each in self.test.threads}
        regions = [access.region for access in instruction.accesses]
        if any(
            region.space is Space.SHARED and places.get(region.cta) != places[thread.cta]
            for region in regions
        ):
            return "accesses shared memory of another cluster"
        return ""

    def _make(self, code: Code) -> list[Setting]:
        found = []
        for run in runs(make_program(self.test, code, self._rows), self.reading, self.table):
            if run.stuck:
                found.append(self._stuck(code, run))
            else:
                lengths = tuple(len(steps) for steps in code)
                found.append(self._setting(run, lengths, ()))
        return found

    def _stuck(self, code: Code, run: Run) -> Setting:
        """What is executed before some threads are stuck."""
        lengths = [len(steps) for steps in code]
        for where in run.stuck:
            lengths[where.agent] = where.step
        waiting = tuple(
            where.agent for where in run.stuck if run.step(where).instruction is not PARK
        )
        done = [list(steps[:n]) for steps, n in zip(code, lengths, strict=True)]
        short = Run(make_program(self.test, done, self._rows))
        short.order = [w for w in run.order if w.step < lengths[w.agent]]
        short.phases, short.observed, short.born = run.phases, run.observed, run.born
        short.completed, short.counts = run.completed, run.counts
        short.generation_of = {
            w: g for w, g in run.generation_of.items() if w.step < lengths[w.agent]
        }
        short.generations = {
            key: [[w for w in members if w.step < lengths[w.agent]] for members in generations]
            for key, generations in run.generations.items()
        }
        return self._setting(short, tuple(lengths), waiting)

    def _setting(self, run: Run, executed: tuple[int, ...], stuck: tuple[int, ...]) -> Setting:
        skeleton = Skeleton(self.test, run, self.reading, self.table)
        return Setting(skeleton, Order(skeleton, self.rows), executed, stuck)

    def _counted(self, traces: Sequence[Ran]) -> Code:
        """The instructions; barriers that wait for all threads with their name know how many."""
        named: dict[tuple[int, int], int] = {}
        for thread, trace in zip(self.test.threads, traces, strict=True):
            for key in {(thread.cta, _bar(done)) for done in trace.steps if _by_name(done)}:
                named[key] = named.get(key, 0) + 1
        code = []
        for thread, trace in zip(self.test.threads, traces, strict=True):
            steps: list[Instruction] = []
            for done in trace.steps:
                instruction = done.instruction
                if _by_name(done) and isinstance(instruction, ins.Bar):
                    count = named[thread.cta, instruction.id]
                    instruction = replace(instruction, threads=count)
                steps.append(instruction)
            if trace.repeats >= 0:
                steps.append(trace.park or PARK)
            code.append(tuple(steps))
        return tuple(code)


def _by_name(done: Executed) -> bool:
    return done.act.counted == "name"


def _bar(done: Executed) -> int:
    return done.instruction.id if isinstance(done.instruction, ins.Bar) else -1
