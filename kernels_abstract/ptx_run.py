"""Concrete execution of one launch: all threads of one block (or cluster) together.

Threads at the same instruction advance as one group; of several groups the one with the lowest
instruction index goes first, so that divergent threads meet again where the paths join. A barrier
blocks its threads until it opens. If control flow depends only on known values, the events and
program orders found this way are those of every execution, and the model judges all
interleavings of them.

A branch on an unknown value is executed on both sides when neither side does more than compute
registers; the registers are then joined like a `selp`. Any other unknown branch, and every bound
that is hit, raises `BudgetExceeded`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..model.program import BudgetExceeded, InputError
from . import ptx_access, ptx_control, ptx_copy, ptx_data  # noqa: F401  (fill the opcode table)
from .ptx_launch import WARP, Launch, special_register
from .ptx_memory import CTA_SHIFT, AddressError, AddressSpace, LocalMemory, Location, Memory
from .ptx_opcodes import Handler, Kind, handler_of
from .ptx_parser import place
from .ptx_record import Record
from .ptx_sync import Synchronisation
from .ptx_syntax import (
    TYPE_BITS,
    Address,
    Discard,
    Entry,
    Immediate,
    Negated,
    Operand,
    PtxInstruction,
    Register,
    Special,
    Symbol,
    Variable,
)
from .ptx_values import Bits, Mask, Provenance, Value, choose, masked, signed, unsigned

MAX_WARP_INSTRUCTIONS = 2_000_000
MAX_STEPS = 400_000
"""Steps of groups: an endless loop of a single warp is found after some seconds."""

MAX_RECORD = 4_000_000
"""Recorded steps and distinct computed values."""

MALFORMED = (IndexError, KeyError, TypeError, ValueError, StopIteration, AssertionError)
"""What a handler raises on operands that its opcode cannot have."""


class Machine:
    """The state of all threads. Lane `cta * padded + thread` is thread `thread` of `cta`."""

    def __init__(self, entry: Entry, variables: Sequence[Variable], launch: Launch, path: str):
        self.entry, self.launch, self.path = entry, launch, path
        self.code = [*entry.instructions, PtxInstruction("ret", (), entry.line, 0, "ret;")]
        self.code[-1].index = len(self.code) - 1
        self.handlers: list[Handler] = [handler_of(ins, self.where(ins)) for ins in self.code]
        self.parameters = {parameter.name: parameter for parameter in entry.parameters}
        self.variables = {v.name: v for v in (*variables, *entry.variables)}
        self.padded = launch.padded
        self.count = self.padded * launch.ctas
        self.zeros: Bits = np.zeros(self.count, np.uint64)
        self.lanes = np.arange(self.count)
        self.cta_of = self.lanes // self.padded
        self.warp_of = self.lanes // WARP
        self.thread_of = self.lanes % self.padded
        self.alive: Mask = self.thread_of < launch.threads
        self.runnable: Mask = self.alive.copy()
        self.parked: Mask = np.zeros(self.count, np.bool_)
        self.pcs = np.zeros(self.count, np.int64)
        self.registers: dict[str, Value] = {}
        self.provenance = Provenance()
        self.record = Record(self.provenance, self.count)
        self.space = AddressSpace(launch.ctas)
        self.memory = Memory(launch.contents)
        self.local = LocalMemory()
        self.sync = Synchronisation(self)
        self.notes: dict[str, None] = {}
        self.executed = self.advanced = 0
        self.here = self.code[0]
        self.active: Mask = self.alive
        self.warps = np.unique(self.warp_of)
        self.guard: Value | None = None
        self._constants: dict[tuple[Hashable, str], Value] = {}
        self._lay_out()

    # --- layout ----------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        for buffer in self.launch.pointers.values():
            self.space.add_buffer(buffer)
        shared = [v for v in self.variables.values() if v.space == "shared"]
        for v in sorted(shared, key=lambda v: v.dynamic):
            self.space.add_shared(v.name, v.bytes, max(v.align, 1), v.dynamic)
        offset = 0
        for v in self.variables.values():
            if v.space in ("global", "const"):
                self.space.symbols[v.name] = self.space.add_buffer(v.name)
            elif v.space in ("local", "param"):
                offset = -(-offset // max(v.align, 1)) * max(v.align, 1)
                self.space.symbols[v.name] = offset
                offset += v.bytes

    # --- errors ----------------------------------------------------------------------------------

    def where(self, ins: PtxInstruction) -> str:
        return place(self.path, ins.line, ins.column)

    def stop(self, ins: PtxInstruction, reason: str) -> BudgetExceeded:
        return BudgetExceeded(f"{self.where(ins)}: {reason}")

    def need(self, value: Value, what: str, kind: str = "operand") -> None:
        """The active lanes cannot go on without knowing this value."""
        self.require_known(value, self.active, self.here, what)
        self.record.use(value, self.active, kind)

    def require_known(self, value: Value, lanes: Mask, ins: PtxInstruction, what: str) -> None:
        """`what` (an address, a count) must be known; say what would make it known."""
        if value.unknown is None or not (value.unknown & lanes).any():
            return
        node = int(value.nodes()[value.unknown & lanes][0])
        for leaf in self.provenance.leaves(node):
            kind, _, name = self.provenance.name(leaf).partition(" ")
            if kind == "parameter":
                message = f"{what} depends on parameter {name}: give --param {name}=VALUE"
                raise InputError(message, self.where(ins))
            if kind == "global":
                array = name.partition("[")[0]
                hint = f"give its contents with --buffer {array}=VALUES"
                raise self.stop(ins, f"{what} depends on {name}, which is not known: {hint}")
        raise self.stop(ins, f"{what} depends on data that is not known")

    # --- scheduling ------------------------------------------------------------------------------

    def run(self) -> None:
        while self.runnable.any():
            ready = self.runnable & ~self.parked
            if not ready.any():
                lane = int(np.flatnonzero(self.parked)[0])
                raise self.stop(self.code[self.pcs[lane]], "waits for lanes that never come")
            pc = int(self.pcs[ready].min())
            group = self.runnable & (self.pcs == pc)
            self.parked &= ~group
            ahead = self.runnable & (self.pcs > pc)
            self._run_group(group, pc, int(self.pcs[ahead].min(initial=len(self.code))))
        self.sync.report_stuck()

    def _run_group(self, group: Mask, pc: int, limit: int) -> None:
        """Advance one group until it branches or blocks, or reaches the next group's place."""
        warps = np.unique(self.warp_of[group])
        while pc < limit:
            handler, ins = self.handlers[pc], self.code[pc]
            self._tick(warps, ins)
            if handler.kind is Kind.CONTROL:
                self.pcs[group] = pc + 1
                self._execute(handler, ins, group)
                return
            self._execute(handler, ins, group)
            pc += 1
        self.pcs[group] = pc

    def _tick(self, warps: NDArray[np.int64], ins: PtxInstruction) -> None:
        self.warps = warps
        self.record.begin(ins, warps)
        self.executed += len(warps)
        self.advanced += 1
        if self.executed > MAX_WARP_INSTRUCTIONS or self.advanced > MAX_STEPS:
            reason = f"stopped after {self.executed:,} warp instructions: an endless loop?"
            raise self.stop(ins, reason)
        if len(self.provenance) + self.record.length > MAX_RECORD:
            raise self.stop(ins, f"stopped after {self.record.length:,} recorded steps: too long")

    def _execute(self, handler: Handler, ins: PtxInstruction, group: Mask) -> None:
        self.here, self.active, self.guard = ins, group, None
        if ins.guard is not None:
            self._apply_guard(handler, ins, ins.guard, group)
            if not self.active.any():
                return
        try:
            handler.function(self, ins)
        except MALFORMED as error:
            raise InputError(f"cannot understand {ins.text}", self.where(ins)) from error

    def _apply_guard(
        self, handler: Handler, ins: PtxInstruction, guard: Register, group: Mask
    ) -> None:
        """Narrow the active lanes to those whose guard holds (PTX ISA §9.3).

        An instruction that only computes, under a guard that comes from loaded data, is executed
        by all lanes; `write` then selects between its result and the old value.
        """
        value = self.read(Negated(guard) if ins.guard_negated else guard, "pred")
        unsure = group & value.unknowns()
        self.active = group & ((value.bits == 1) | unsure)
        if handler.kind is Kind.DATA:
            if value.node is not None:
                self.active, self.guard = group, value
            return
        is_branch = ins.parts[0] == "bra"
        self.record.use(value, group, "branch" if is_branch else "predicate")
        if unsure.any():
            self.guard = value
            if not is_branch:
                self.require_known(value, unsure, ins, f"whether {ins.opcode} is executed")

    # --- branches --------------------------------------------------------------------------------

    def branch(self, ins: PtxInstruction, target: int) -> None:
        """Move the active lanes; lanes that may or may not jump execute both sides."""
        jumping = self.active
        if self.guard is not None:
            condition = self.guard
            unsure = self.active & condition.unknowns()
            jumping = self.active & ~unsure
            self._both_sides(ins, target, condition, unsure)
        self.pcs[jumping] = target

    def _both_sides(self, ins: PtxInstruction, target: int, taken: Value, lanes: Mask) -> None:
        join = self._join_of(ins, target)
        if join is None:
            self.require_known(taken, lanes, ins, "a branch that decides what memory is accessed")
        assert join is not None
        self.notes[f"line {ins.line}: the branch depends on data; both sides only compute"] = None
        before = dict(self.registers)
        self._run_region(lanes, ins.index + 1, join)
        fallen, self.registers = self.registers, before
        self._run_region(lanes, target, join)
        self.active = lanes
        for name in fallen.keys() | self.registers.keys():
            other = self.registers.get(name, self.constant(0))
            value = fallen.get(name, self.constant(0))
            if value is not other:
                joined = self.select(taken, other, value)
                self.registers[name] = choose(lanes, joined, other)
        self.pcs[lanes] = join

    def _join_of(self, ins: PtxInstruction, target: int) -> int | None:
        """Where both sides meet, if they go forward only and do no more than compute."""
        join, index = target, ins.index + 1
        if target < index:
            return None
        while index < join:
            inside = self.code[index]
            if inside.parts[0] == "bra":
                goal = ptx_control.target_of(self, inside)
                if goal <= index:
                    return None
                join = max(join, goal)
            elif self.handlers[index].kind is not Kind.DATA:
                return None
            index += 1
        return join

    def _run_region(self, lanes: Mask, start: int, join: int) -> None:
        self.pcs[lanes] = start
        warps = np.unique(self.warp_of[lanes])
        for pc in range(start, join):
            group = lanes & (self.pcs == pc)
            if group.any():
                self._tick(warps, self.code[pc])
                self.pcs[group] = pc + 1
                self._execute(self.handlers[pc], self.code[pc], group)

    # --- operands --------------------------------------------------------------------------------

    def constant(self, value: int) -> Value:
        return self._constant(value, "b64", lambda: np.full(self.count, value, np.uint64))

    def _constant(self, key: Hashable, kind: str, make: Callable[[], Bits]) -> Value:
        found = self._constants.get((key, kind))
        if found is None:
            found = self._constants[(key, kind)] = Value(make())
        return found

    def read(self, operand: Operand, kind: str) -> Value:
        """The value of an operand, read as type `kind`."""
        width = TYPE_BITS[kind]
        if isinstance(operand, Register):
            value = self.registers.get(operand.name) or self.constant(0)
            if TYPE_BITS[operand.type] <= width:
                return value
            return Value(masked(value.bits, width), value.node, value.unknown)
        if isinstance(operand, Immediate):
            return self._immediate(operand, kind)
        if isinstance(operand, Special):
            return self._constant(operand, kind, lambda: self._special(operand))
        if isinstance(operand, Symbol):
            return self._constant(operand, kind, lambda: self._symbol(operand))
        if isinstance(operand, Negated):
            value = self.read(operand.operand, "pred")
            return self.derive("not.pred", [value], value.bits ^ np.uint64(1), self.alive)
        raise InputError("an operand is outside the model", self.where(self.here))

    def _special(self, operand: Special) -> Bits:
        found = special_register(operand.name, self.launch)
        if found is None:
            what = f"special register {operand.name} is outside the model"
            raise InputError(what, self.where(self.here))
        return found

    def _immediate(self, operand: Immediate, kind: str) -> Value:
        value = operand.value
        if isinstance(value, float):
            code, carrier = ("<d", "<Q") if kind == "f64" else ("<f", "<I")
            value = struct.unpack(carrier, struct.pack(code, value))[0]
        return self.constant(value & ((1 << TYPE_BITS[kind]) - 1))

    def _symbol(self, symbol: Symbol) -> Bits:
        address = self.space.symbols.get(symbol.name)
        if address is None:
            what = f"the address of {symbol.name} is outside the model"
            raise InputError(what, self.where(self.here))
        bits = self.zeros + np.uint64(address + symbol.offset)
        if self.variables[symbol.name].space == "shared":
            bits = bits | (self.cta_of.astype(np.uint64) << np.uint64(CTA_SHIFT))
        return bits

    def constant_of(self, name: str, offset: int, size: int, ins: PtxInstruction) -> Value:
        """A kernel parameter, a word of constant memory, or the result of a call."""
        parameter = self.parameters.get(name)
        if parameter is None:
            return self._leaf_everywhere(f"constant {name}+{offset}")
        if name in self.launch.pointers and offset == 0:
            return self.constant(self.space.add_buffer(self.launch.pointers[name]))
        given = self.launch.parameters.get(name)
        if given is None:
            return self._leaf_everywhere(f"parameter {name}")
        if isinstance(given, float):
            return self._immediate(Immediate(given), parameter.type)
        return self.constant((given >> (8 * offset)) & ((1 << (8 * size)) - 1))

    def _leaf_everywhere(self, name: str) -> Value:
        node = self.provenance.leaf(name)
        nodes = np.full(self.count, node, np.int64)
        return Value(self.zeros, nodes, np.ones(self.count, np.bool_))

    # --- results ---------------------------------------------------------------------------------

    def derive(
        self, name: str, values: Sequence[Value], bits: Bits | None, lanes: Mask | None = None
    ) -> Value:
        """The result of an operation: `bits` where all operands are known (None: nowhere)."""
        lanes = self.active if lanes is None else lanes
        if bits is None:
            return Value(self.zeros, self.provenance.combine(name, values, lanes), lanes)
        touched: Mask | None = None
        unknown: Mask | None = None
        for value in values:
            if value.node is not None:
                touched = value.node > 0 if touched is None else touched | (value.node > 0)
            if value.unknown is not None:
                unknown = value.unknown if unknown is None else unknown | value.unknown
        if touched is None or not (touched & lanes).any():
            return Value(bits)
        return Value(bits, self.provenance.combine(name, values, lanes & touched), unknown)

    def select(self, condition: Value, then: Value, other: Value) -> Value:
        """`condition ? then : other`, which depends on the condition too if that was loaded."""
        chosen = choose(condition.bits == 1, then, other)
        if condition.node is None:
            return chosen
        same = (then.bits == other.bits) & (then.nodes() == other.nodes())
        depends = (condition.node > 0) & self.active & ~same
        nodes = self.provenance.combine("selp", [then, other, condition], depends)
        unknown = np.where(condition.unknowns(), True, chosen.unknowns())
        return choose(depends, Value(chosen.bits, nodes, unknown), chosen)

    def write(self, operand: Operand, value: Value) -> None:
        """Assign a register in the active lanes."""
        if isinstance(operand, Discard):
            return
        assert isinstance(operand, Register)
        old = self.registers.get(operand.name)
        if self.guard is not None:
            value = self.select(self.guard, value, old or self.constant(0))
        if old is not None:
            value = choose(self.active, value, old)
        self.registers[operand.name] = value

    def extended(self, value: Value, kind: str, operand: Operand) -> Value:
        """A loaded value as the destination register holds it (PTX ISA §9.4.1)."""
        bits = masked(value.bits, TYPE_BITS[kind])
        if kind.startswith("s"):
            bits = self.sign_extended(bits, kind, operand)
        return Value(bits, value.node, value.unknown)

    def sign_extended(self, bits: Bits, kind: str, operand: Operand) -> Bits:
        width = TYPE_BITS[operand.type] if isinstance(operand, Register) else 64
        return unsigned(signed(bits, TYPE_BITS[kind]), width)

    def active_lanes(self) -> list[int]:
        lanes: list[int] = np.flatnonzero(self.active).tolist()
        return lanes

    def ballot(self, mask: Mask) -> Bits:
        """The lanes of each warp that `mask` contains, as a bit mask in all its lanes."""
        rows = mask.reshape(-1, WARP).astype(np.uint64)
        words = (rows << np.arange(WARP, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
        return np.repeat(words, WARP)

    # --- addresses -------------------------------------------------------------------------------

    def locations(self, operand: Operand, space: str) -> list[tuple[int, Location]]:
        """Where `[base+offset]` is, for each active lane in order."""
        assert isinstance(operand, Address)
        base = self.read(operand.base, "b64")
        self.need(base, "the address", "address")
        lanes = np.flatnonzero(self.active)
        bits = base.bits[lanes] + np.array(operand.offset, np.int64).astype(np.uint64)
        found: dict[int, Location] = {}
        result = []
        for lane, address in zip(lanes.tolist(), bits.tolist(), strict=True):
            location = found.get(address)
            if location is None:
                location = found[address] = self._locate(space, address)
            result.append((lane, location))
        return result

    def _locate(self, space: str, address: int) -> Location:
        try:
            return self.space.locate(space, address)
        except AddressError as error:
            raise InputError(f"{self.here.opcode}: {error}", self.where(self.here)) from None
