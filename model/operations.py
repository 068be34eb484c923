"""The synchronization operations of a program: what the search of `smt.py` puts in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from . import instructions as ins
from .program import Barrier, BudgetExceeded, Program
from .run import Where


class Act(Enum):
    """What a synchronization operation does. WAIT, PASS and CLUSTER_WAIT may block."""

    ISSUE = "issue"  # of an operation whose completion signals
    ARRIVE = "arrive"  # at an mbarrier (or its completion does), or into a named barrier
    WAIT = "wait"
    PASS = "pass"  # out of a named barrier
    INIT = "init"
    INVAL = "inval"
    CLUSTER_ARRIVE = "cluster-arrive"
    CLUSTER_WAIT = "cluster-wait"


MAX_PAIRS = 8000
"""Pairs of operations on the same barrier: what the size of the constraints grows with."""
BLOCKING = (Act.WAIT, Act.PASS, Act.CLUSTER_WAIT)


@dataclass(frozen=True)
class Operation:
    """One synchronization operation of one step.

    `cell` is the barrier it is about: a `Barrier`, or the key of a named or warp barrier. `signal`
    numbers a completion (-1: the step itself). An arrival takes `count` off the pending arrivals
    and adds `tx` to the transaction bytes; `need` is the size of a named barrier, or of `init`.
    """

    number: int
    where: Where
    kind: Act
    cell: Hashable = None
    signal: int = -1
    count: int = 0
    tx: int = 0
    need: int = 0
    parity: int = 0

    @property
    def arrival(self) -> tuple[Where, int]:
        return (self.where, self.signal)


@dataclass
class Operations:
    """All synchronization operations: `chains` in program order, one an agent; `flights` are
    completions with the operation that issues them."""

    every: list[Operation] = field(default_factory=list)
    chains: list[list[Operation]] = field(default_factory=list)
    flights: list[tuple[Operation, Operation]] = field(default_factory=list)

    def of(self, kind: Act) -> list[Operation]:
        return [operation for operation in self.every if operation.kind is kind]


def operations(program: Program, most: int) -> Operations:
    """The synchronization operations of a program.

    Errors: BudgetExceeded when there are more than `most`, or too many on one barrier, and for what
    the constraints do not cover: a synchronizing step under a data-dependent branch, a barrier that
    is initialised again.
    """
    found = Operations()
    for index, agent in enumerate(program.agents):
        found.chains.append([])
        for number, step in enumerate(agent.steps):
            _add(found, program, Where(index, number))
            if len(found.every) > most:
                raise BudgetExceeded(
                    f"more than {most} synchronization operations: too many to search schedules"
                )
            synchronizes = found.every and found.every[-1].where == Where(index, number)
            if step.guard and synchronizes:
                raise BudgetExceeded(
                    f"{agent.name}: {step.instruction.text} synchronizes under a data-dependent "
                    "branch; schedules are searched for straight-line agents only"
                )
    _refuse_second_lives(program, found)
    sizes = Counter(operation.cell for operation in found.every if operation.cell is not None)
    if sum(size * size for size in sizes.values()) > MAX_PAIRS:
        raise BudgetExceeded(
            f"up to {max(sizes.values())} operations on one barrier: too many to search schedules"
        )
    return found


def _add(found: Operations, program: Program, where: Where) -> None:
    """The operations of one step: its own in the agent's chain, its completions in flight."""
    instruction = program.agents[where.agent].steps[where.step].instruction
    chain = found.chains[where.agent]
    own = list(_own(program, where, instruction))
    if instruction.signals and not own:
        own = [Operation(0, where, Act.ISSUE)]
    for operation in own:
        chain.append(_numbered(found, operation))
    for number, signal in enumerate(instruction.signals):
        completion = Operation(
            0, where, Act.ARRIVE, signal.barrier, number, signal.count, -signal.bytes
        )
        found.flights.append((chain[-1], _numbered(found, completion)))


def _numbered(found: Operations, operation: Operation) -> Operation:
    found.every.append(replace(operation, number=len(found.every)))
    return found.every[-1]


def _own(program: Program, where: Where, instruction: ins.Instruction) -> Iterator[Operation]:
    """What a step itself does, in order; not yet numbered."""
    agent = program.agents[where.agent]
    match instruction:
        case ins.MbarrierInit(barrier=cell, count=need):
            yield Operation(0, where, Act.INIT, cell, need=need)
        case ins.MbarrierInval(barrier=cell):
            yield Operation(0, where, Act.INVAL, cell)
        case ins.MbarrierArrive(barrier=cell, expect=expected, complete=done):
            count = instruction.count * agent.lanes
            yield Operation(0, where, Act.ARRIVE, cell, count=count, tx=expected - done)
        case ins.MbarrierTryWait(barrier=cell, parity=parity):
            yield Operation(0, where, Act.WAIT, cell, parity=parity % 2)
        case ins.CpAsyncMbarrierArrive(barrier=cell, noinc=False, lanes=lanes):
            yield Operation(0, where, Act.ARRIVE, cell, count=-lanes)
        case ins.Bar(id=number, threads=threads):
            key = ("bar", agent.cta, number)
            yield Operation(0, where, Act.ARRIVE, key, count=agent.lanes, need=threads)
            if instruction.waits:
                yield Operation(0, where, Act.PASS, key)
        case ins.BarWarpSync(mask=mask):
            warp: Hashable = ("warp", agent.cta, agent.warp, mask)
            mates = [a for a in program.agents if (a.cta, a.warp) == (agent.cta, agent.warp)]
            need = sum(mate.lanes for mate in mates if mate.mask & mask)
            yield Operation(0, where, Act.ARRIVE, warp, count=agent.lanes, need=need)
            yield Operation(0, where, Act.PASS, warp)
        case ins.ClusterArrive():
            yield Operation(0, where, Act.CLUSTER_ARRIVE)
        case ins.ClusterWait():
            yield Operation(0, where, Act.CLUSTER_WAIT)


def _refuse_second_lives(program: Program, found: Operations) -> None:
    """One life a barrier: what a second mbarrier.init does is left to `run.py`."""
    born: list[Hashable] = [barrier for barrier in program.barriers if barrier.count is not None]
    births = Counter(born + [operation.cell for operation in found.of(Act.INIT)])
    deaths = Counter(operation.cell for operation in found.of(Act.INVAL))
    for cell, times in (*births.items(), *deaths.items()):
        if times > 1 and isinstance(cell, Barrier):
            raise BudgetExceeded(
                f"{cell.label} has several lives; schedules are searched for barriers that are "
                "initialised once"
            )
