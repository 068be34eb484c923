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
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..model.instructions import Compute, Instruction, Use
from ..model.program import BudgetExceeded, InputError, Region, Source, Step
from . import ptx_access, ptx_data, ptx_sync  # noqa: F401  (they fill the opcode table)
from .ptx_memory import CTA_SHIFT, AddressError, AddressSpace, LocalMemory, Location, Memory, region_of
from .ptx_opcodes import Handler, Kind, handler_of
from .ptx_parser import place
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

WARP = 32
MAX_WARP_INSTRUCTIONS = 2_000_000
MAX_SECONDS = 8.0

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Launch:
    """Launch shape, and the values of parameters and of small buffers."""

    grid: Shape
    block: Shape
    cluster: Shape = (1, 1, 1)
    parameters: dict[str, int | float] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    """Pointer parameters and the buffers they point to."""

    contents: dict[str, list[int]] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def ctas(self) -> int:
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


class Machine:
    """The state of all threads. Lane `cta * padded + thread` is thread `thread` of `cta`."""

    def __init__(self, entry: Entry, variables: Sequence[Variable], launch: Launch, path: str):
        self.entry, self.launch, self.path = entry, launch, path
        self.code = [*entry.instructions, PtxInstruction("ret", (), entry.line, 0, "ret;")]
        self.code[-1].index = len(self.code) - 1
        self.handlers: list[Handler] = [handler_of(ins, self.where(ins)) for ins in self.code]
        self.parameters = {parameter.name: parameter for parameter in entry.parameters}
        self.variables = {v.name: v for v in (*variables, *entry.variables)}
        self.padded = -(-launch.threads // WARP) * WARP
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
        self.clock = np.zeros(self.count // WARP, np.int64)
        self.registers: dict[str, Value] = {}
        self.provenance = Provenance()
        self.space = AddressSpace(launch.ctas)
        self.memory = Memory(launch.contents)
        self.local = LocalMemory()
        self.sync = Synchronisation(self)
        self.steps: list[list[Step]] = [[] for _ in range(self.count)]
        self.regions: dict[Region, None] = {}
        self.notes: dict[str, None] = {}
        self.executed = 0
        self.here = self.code[0]
        self.active: Mask = self.alive
        self.warps = np.unique(self.warp_of)
        self.unsure: Value | None = None
        self._held: list[dict[int, str]] = [{} for _ in range(self.count)]
        self._loads: list[dict[tuple[Region, int], int]] = [{} for _ in range(self.count)]
        self._constants: dict[tuple[object, str], Value] = {}
        self._sources: dict[int, Source] = {}
        self._regions: dict[tuple[Location, int, int], Region] = {}
        self._started = time.monotonic()
        self._lay_out()

    # --- layout -----------------------------------------------------------------------------------------

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

    # --- errors -----------------------------------------------------------------------------------------

    def where(self, ins: PtxInstruction) -> str:
        return place(self.path, ins.line, ins.column)

    def stop(self, ins: PtxInstruction, reason: str) -> BudgetExceeded:
        return BudgetExceeded(f"{self.where(ins)}: {reason}")

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

    # --- scheduling ----------------------------------------------------------------------------------------

    def run(self) -> None:
        while self.runnable.any():
            ready = self.runnable & ~self.parked
            if not ready.any():
                break
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
        self.clock[warps] += 1
        self.executed += len(warps)
        if self.executed > MAX_WARP_INSTRUCTIONS:
            limit = f"{MAX_WARP_INSTRUCTIONS:,} warp instructions"
            raise self.stop(ins, f"stopped after {limit}: an endless loop?")
        if time.monotonic() - self._started > MAX_SECONDS:
            raise self.stop(ins, f"stopped after {MAX_SECONDS:.0f} s of execution")

    def _execute(self, handler: Handler, ins: PtxInstruction, group: Mask) -> None:
        self.here, self.active, self.unsure = ins, group, None
        if ins.guard is not None:
            self._apply_guard(handler, ins, ins.guard, group)
            if not self.active.any():
                return
        handler.function(self, ins)

    def _apply_guard(
        self, handler: Handler, ins: PtxInstruction, guard: Register, group: Mask
    ) -> None:
        """Narrow the active lanes to those whose guard holds (PTX ISA §9.3)."""
        value = self.read(Negated(guard) if ins.guard_negated else guard, "pred")
        unsure = group & value.unknowns()
        self.active = group & ((value.bits == 1) | unsure)
        if handler.kind is not Kind.DATA:
            self.use(value, group, "branch" if ins.parts[0] == "bra" else "predicate")
        if not unsure.any():
            return
        self.unsure = value
        if ins.parts[0] != "bra" and handler.kind is not Kind.DATA:
            self.require_known(value, unsure, ins, f"whether {ins.opcode} is executed")

    # --- branches --------------------------------------------------------------------------------------------

    def branch(self, ins: PtxInstruction, target: int) -> None:
        """Move the active lanes; lanes that may or may not jump execute both sides."""
        jumping = self.active
        if self.unsure is not None:
            condition = self.unsure
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
        for name, value in fallen.items():
            other = self.registers.get(name, self.constant(0))
            if value is not other:
                self.active = lanes
                joined = self.select(taken, other, value)
                self.registers[name] = choose(lanes, joined, other)
        for name in self.registers.keys() - fallen.keys():
            self.active = lanes
            joined = self.select(taken, self.registers[name], self.constant(0))
            self.registers[name] = choose(lanes, joined, self.registers[name])
        self.pcs[lanes] = join

    def _join_of(self, ins: PtxInstruction, target: int) -> int | None:
        """Where both sides meet, if they go forward only and do no more than compute."""
        join, index = target, ins.index + 1
        if target < index:
            return None
        while index < join:
            inside = self.code[index]
            if inside.parts[0] == "bra":
                goal = ptx_sync.target_of(self, inside)
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

    # --- operands --------------------------------------------------------------------------------------------

    def constant(self, value: int) -> Value:
        return self._constant(value, "b64", lambda: np.full(self.count, value, np.uint64))

    def _constant(self, key: object, kind: str, make: object) -> Value:
        found = self._constants.get((key, kind))
        if found is None:
            assert callable(make)
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
            return self._constant(operand.name, kind, lambda: self._special(operand.name))
        if isinstance(operand, Symbol):
            return self._constant(operand, kind, lambda: self._symbol(operand))
        if isinstance(operand, Negated):
            value = self.read(operand.operand, "pred")
            return self.derive("not.pred", [value], value.bits ^ np.uint64(1), self.alive)
        raise InputError(f"operand {operand} is outside the model", place(self.path, 0))

    def _immediate(self, operand: Immediate, kind: str) -> Value:
        value = operand.value
        if isinstance(value, float):
            code, carrier = ("<d", "<Q") if kind == "f64" else ("<f", "<I")
            value = struct.unpack(carrier, struct.pack(code, value))[0]
        return self.constant(value & ((1 << TYPE_BITS[kind]) - 1))

    def _symbol(self, symbol: Symbol) -> Bits:
        address = self.space.symbols.get(symbol.name)
        if address is None:
            raise InputError(f"the address of {symbol.name} is outside the model", self.path)
        bits = self.zeros + np.uint64(address + symbol.offset)
        if self.variables[symbol.name].space == "shared":
            bits = bits | (self.cta_of.astype(np.uint64) << np.uint64(CTA_SHIFT))
        return bits

    def _special(self, name: str) -> Bits:
        """Special registers (PTX ISA §10). The first cluster of the grid is executed."""
        stem, _, axis = name.lstrip("%").partition(".")
        number = "xyz".find(axis) if axis else 0
        launch = self.launch
        shapes = {
            "ntid": launch.block,
            "nctaid": launch.grid,
            "cluster_nctaid": launch.cluster,
            "nclusterid": tuple(g // c for g, c in zip(launch.grid, launch.cluster, strict=True)),
        }
        counts = {
            "WARP_SZ": WARP, "nwarpid": self.padded // WARP, "cluster_nctarank": launch.ctas,
            "is_explicit_cluster": int(launch.ctas > 1), "clusterid": 0,
        }  # fmt: skip
        per_lane = {
            "tid": (self.thread_of, launch.block),
            "ctaid": (self.cta_of, launch.cluster),
            "cluster_ctaid": (self.cta_of, launch.cluster),
        }
        if stem in shapes:
            return self.zeros + np.uint64(shapes[stem][number])
        if stem in counts:
            return self.zeros + np.uint64(counts[stem])
        if stem in per_lane:
            linear, shape = per_lane[stem]
            below = (1, shape[0], shape[0] * shape[1])[number]
            return (linear // below % shape[number]).astype(np.uint64)
        lane = (self.lanes % WARP).astype(np.uint64)
        one = np.uint64(1)
        ranks: dict[str, Bits] = {
            "laneid": lane,
            "warpid": (self.thread_of // WARP).astype(np.uint64),
            "cluster_ctarank": self.cta_of.astype(np.uint64),
            "lanemask_eq": one << lane,
            "lanemask_lt": (one << lane) - one,
            "lanemask_le": (one << (lane + one)) - one,
            "lanemask_ge": masked(~((one << lane) - one), 32),
            "lanemask_gt": masked(~((one << (lane + one)) - one), 32),
        }
        if stem in ranks:
            return ranks[stem]
        raise InputError(f"special register {name} is outside the model", self.path)

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

    # --- results ---------------------------------------------------------------------------------------------

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
        """`condition ? then : other`; an operation of all three where the condition is unknown."""
        chosen = choose(condition.bits == 1, then, other)
        unsure = condition.unknowns() & self.active
        if not unsure.any():
            return chosen
        same = (then.bits == other.bits) & (then.nodes() == other.nodes())
        unsure &= ~same
        nodes = self.provenance.combine("selp", [then, other, condition], unsure)
        return choose(unsure, Value(self.zeros, nodes, unsure), chosen)

    def write(self, operand: Operand, value: Value) -> None:
        """Assign a register in the active lanes."""
        if isinstance(operand, Discard):
            return
        assert isinstance(operand, Register)
        old = self.registers.get(operand.name)
        if self.unsure is not None:
            value = self.select(self.unsure, value, old or self.constant(0))
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

    def ballot(self, mask: Mask) -> Bits:
        """The lanes of each warp that `mask` contains, as a bit mask in all its lanes."""
        rows = mask.reshape(-1, WARP).astype(np.uint64)
        words = (rows << np.arange(WARP, dtype=np.uint64)).sum(axis=1, dtype=np.uint64)
        return np.repeat(words, WARP)

    # --- events -----------------------------------------------------------------------------------------------

    def source(self, ins: PtxInstruction) -> Source:
        found = self._sources.get(ins.index)
        if found is None:
            found = self._sources[ins.index] = Source(ins.line, ins.column, ins.text)
        return found

    def emit(self, lane: int, instruction: Instruction) -> Step:
        """Append a step to a thread. Lanes that emit between two ticks share a position."""
        position = int(self.clock[lane // WARP])
        step = Step(instruction, self.source(self.here), position=position)
        self.steps[lane].append(step)
        return step

    def next_position(self) -> None:
        self.clock[self.warps] += 1

    def use(self, value: Value, lanes: Mask, kind: str) -> None:
        """A thread needs this value to go on (a branch, an address, a shuffle)."""
        if value.node is None:
            return
        emitted = False
        for lane in np.flatnonzero(lanes & (value.node > 0)).tolist():
            names = self._registers_of(lane, int(value.node[lane]))
            if names:
                self.emit(lane, Use(names, kind))
                emitted = True
        if emitted:
            self.next_position()

    def _registers_of(self, lane: int, node: int) -> tuple[str, ...]:
        held = self._held[lane]
        return tuple(held[leaf] for leaf in self.provenance.leaves(node) if leaf in held)

    def register_of(self, lane: int, node: int) -> str:
        """The register in which this thread holds the value `node`, computing it if need be."""
        held = self._held[lane]
        name = held.get(node)
        if name is None:
            function = f"{self.provenance.name(node)}#{node}"
            name = held[node] = function
            self.emit(lane, Compute(name, self._registers_of(lane, node), function))
        return name

    def loaded(self, lane: int, region: Region, version: int) -> tuple[int, str]:
        """A new load by this thread: the node of its value, and the register that gets it.

        The node names the location, the store whose value it is, and how many times the thread
        had loaded that before: equal in threads that load the same.
        """
        counts = self._loads[lane]
        nth = counts[region, version] = counts.get((region, version), -1) + 1
        kind = f"{region.space.value} {region.label}"
        node = self.provenance.leaf(kind, region.cta, region.columns, version, nth)
        name = self._held[lane][node] = f"{region.label}#{node}"
        return node, name

    # --- addresses ---------------------------------------------------------------------------------------------

    def locations(self, operand: Operand, space: str) -> list[tuple[int, Location]]:
        """Where `[base+offset]` is, for each active lane in order."""
        assert isinstance(operand, Address)
        base = self.read(operand.base, "b64")
        self.require_known(base, self.active, self.here, "the address")
        self.use(base, self.active, "address")
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

    def region(self, location: Location, size: int, element: int) -> Region:
        key = (location, size, element)
        found = self._regions.get(key)
        if found is None:
            found = self._regions[key] = region_of(location, size, element)
            self.regions[found] = None
        return found
