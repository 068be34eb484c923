"""A path of one thread as data: what it executes, and under which condition."""

from __future__ import annotations

from dataclasses import dataclass

import z3

from ..instructions import Instruction, Role
from .code import Act
from .schedules import SYNCHRONIZES
from .symbols import Formula, Value, compared

ReadAt = tuple[int, int]
"""A read of the thread: its step, and which read of the step."""
Reads = frozenset[ReadAt]
NONE: Reads = frozenset()


def read_variable(agent: int, step: int, index: int) -> Value:
    return z3.Int(f"read {agent} {step} {index}")


@dataclass(frozen=True)
class Taken:
    """An executed instruction: what it reads and writes, and the reads that its writes (each) and
    its execution depend on."""

    act: Act
    instruction: Instruction
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    needs: tuple[Reads, ...]
    control: Reads

    @property
    def silent(self) -> Formula:
        """Can nobody tell that it was executed? Then it writes nothing, or back what it read."""
        if isinstance(self.instruction, SYNCHRONIZES) or self.instruction.signals:
            return False
        if not self.writes:
            return True
        alone = [each.role for each in self.instruction.accesses] == [Role.ATOMIC]
        return alone and compared("eq", self.reads[0], self.writes[0])


@dataclass(frozen=True)
class Head:
    """A visit of a loop's head: the live registers' values and the number of steps until then."""

    pc: int
    live: tuple[Value, ...]
    steps: int


@dataclass(frozen=True)
class Path:
    """A path, or (while it is walked) its first part: `pc` is the next statement.

    `repeats`: the step from which it goes on for ever, if it does. `cut`: why it was given up.
    """

    pc: int
    registers: dict[str, tuple[Value, Reads]]
    steps: tuple[Taken, ...] = ()
    conditions: tuple[Formula, ...] = ()
    facts: tuple[Formula, ...] = ()
    """What the domains say of its reads; only to leave out paths that cannot be."""
    control: Reads = NONE
    heads: tuple[Head, ...] = ()
    repeats: int = -1
    cut: str = ""
    tested: tuple[tuple[int, Instruction], ...] = ()
    """Tests of an mbarrier that failed: heads passed until then, and the wait that would pass."""
    park: Instruction | None = None
    """What a thread that repeats waits for: the test of an mbarrier that goes on failing."""

    def value(self, register: str) -> Value:
        return self.registers.get(register, (0, NONE))[0]
