"""Pipelined pairs of tcgen05 accesses (PTX ISA §9.7.18.6.2), by ISA version.

Up to 9.3 the list names instructions; 9.4 names operands, within one warp, and adds ld and st.
Pipelined-before is order inside the pipe, not completion: it may not feed anything else.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from . import instructions as ins
from .instructions import Access, Role
from .program import Region
from .readings import Reading

Accumulator = tuple[object, ...]


def accumulator(mma: ins.Tcgen05Mma, reading: Reading) -> Accumulator:
    """What must be equal for two mma to form a pair: address, shape, N and, since 9.2, kind."""
    kind = mma.kind if reading.since("9.2") else ""
    return (mma.d, mma.shape, mma.cta_group, kind)


def pair(
    first: ins.Instruction,
    one: Access,
    second: ins.Instruction,
    other: Access,
    reading: Reading,
) -> bool:
    """Is the pair of accesses in the list? Up to 9.3 it names instructions, since then operands."""
    groups = {getattr(each, "cta_group", 0) for each in (first, second)}
    if len(groups) > 1 or not isinstance(first, (ins.Tcgen05Mma, ins.Tcgen05Cp)):
        return False
    if isinstance(first, ins.Tcgen05Mma) and isinstance(second, ins.Tcgen05Mma):
        same = accumulator(first, reading) == accumulator(second, reading)
        if not reading.since("9.4"):
            return same
        operands = (one.operand, other.operand)
        return operands == ("A", "D") or (same and operands in _SAME_ACCUMULATOR)
    if isinstance(first, ins.Tcgen05Cp):
        if not isinstance(second, ins.Tcgen05Mma):
            return False
        starts = first.wide or _start(one.region) == _start(other.region)
        return not reading.since("9.4") or (other.operand == "A" and starts)
    return reading.since("9.4") and one.operand == "A" and other.role is Role.WRITE


_SAME_ACCUMULATOR = {("C", "D"), ("D", "C"), ("D", "D")}


@dataclass
class PipeTracker:
    """Earlier accesses of one warp as bit sets, by what a later operation can pair with."""

    reading: Reading
    rules: frozenset[str]
    loads: int = 0
    stores: int = 0
    tmem_a: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    c_reads: dict[Accumulator, int] = field(default_factory=lambda: defaultdict(int))
    d_writes: dict[Accumulator, int] = field(default_factory=lambda: defaultdict(int))
    cp_writes: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    placed: dict[tuple[int, tuple[int, int]], int] = field(default_factory=lambda: defaultdict(int))
    """Writes of cp without .4x256b, by cta_group and start: they pair by address (9.4)."""

    def elsewhere(self, mma: ins.Tcgen05Mma, region: Region) -> int:
        """Earlier cp writes that pair with an A operand only if addresses need not be equal."""
        if "pipelined-cp-overlap" not in self.rules:
            return 0
        bits = 0
        for (group, start), some in self.placed.items():
            if group == mma.cta_group and start != _start(region):
                bits |= some
        return bits

    def sources(
        self, instruction: ins.Instruction, operand: str, region: Region
    ) -> list[tuple[int, str]]:
        """Earlier accesses that come before this operand in the pipe, by rule."""
        found: list[tuple[int, str]] = []
        if isinstance(instruction, (ins.Tcgen05Ld, ins.Tcgen05St)):
            both = isinstance(instruction, ins.Tcgen05St)
            found.append((self.stores | self.loads if both else self.stores, "pipelined-ld-st"))
        elif isinstance(instruction, ins.Tcgen05Mma):
            found.append((self._operand(instruction, operand, region), "pipelined"))
            found.append((self._instruction(instruction), "pipelined-instructions"))
        elif isinstance(instruction, ins.Tcgen05Cp) and operand == "destination":
            found.append((self.tmem_a[instruction.cta_group], "pipelined"))
        return [(bits, rule) for bits, rule in found if bits and rule in self.rules]

    def _instruction(self, mma: ins.Tcgen05Mma) -> int:
        """Pairs of the list up to ISA 9.3, which names instructions."""
        key = accumulator(mma, self.reading)
        return self.c_reads[key] | self.d_writes[key] | self._cps(mma.cta_group)

    def _operand(self, mma: ins.Tcgen05Mma, operand: str, region: Region) -> int:
        """Pairs of the list of ISA 9.4, which names operands."""
        key = accumulator(mma, self.reading)
        group = mma.cta_group
        if operand == "A":
            return self.cp_writes[group] | self.placed[group, _start(region)]
        if operand == "C":
            return self.d_writes[key]
        if operand == "D":
            return self.tmem_a[group] | self.c_reads[key] | self.d_writes[key]
        return 0

    def _cps(self, group: int) -> int:
        bits = self.cp_writes[group]
        for (other, _), some in self.placed.items():
            if other == group:
                bits |= some
        return bits

    def add(
        self, instruction: ins.Instruction, operand: str, role: Role, region: Region, bit: int
    ) -> None:
        """Record an access for the operations after it."""
        if isinstance(instruction, ins.Tcgen05Ld):
            self.loads |= bit
        elif isinstance(instruction, ins.Tcgen05St):
            self.stores |= bit
        elif isinstance(instruction, ins.Tcgen05Cp) and role is Role.WRITE:
            if instruction.wide:
                self.cp_writes[instruction.cta_group] |= bit
            else:
                self.placed[instruction.cta_group, _start(region)] |= bit
        elif isinstance(instruction, ins.Tcgen05Mma):
            key = accumulator(instruction, self.reading)
            if operand == "A":
                self.tmem_a[instruction.cta_group] |= bit
            elif operand == "C":
                self.c_reads[key] |= bit
            elif operand == "D":
                self.d_writes[key] |= bit


def _start(region: Region) -> tuple[int, int]:
    return (region.rows[0], region.columns[0])
