"""Handlers of control flow and of warp-wide instructions (PTX ISA §9.7.12-9.7.13, §9.7.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..model.instructions import BarWarpSync
from ..model.program import InputError
from .ptx_launch import WARP
from .ptx_opcodes import control, data, effect
from .ptx_syntax import Label, Operand, Pair, PtxInstruction, Symbol
from .ptx_values import Mask, Value

if TYPE_CHECKING:
    from .ptx_run import Machine

SILENT_CALLS = frozenset(("vprintf", "printf", "__assertfail", "__assert_fail"))


# --- control flow --------------------------------------------------------------------------------


def target_of(machine: Machine, ins: PtxInstruction) -> int:
    label = ins.operands[0] if ins.operands else None
    if not isinstance(label, Label):
        raise InputError("a branch needs a label", machine.where(ins))
    return label.targets[0]


@control("bra")
def bra(machine: Machine, ins: PtxInstruction) -> None:
    machine.branch(ins, target_of(machine, ins))


@control("brx.idx")
def brx_idx(machine: Machine, ins: PtxInstruction) -> None:
    index, table = machine.read(ins.operands[0], "b32"), ins.operands[1]
    if not isinstance(table, Label):
        raise InputError("brx.idx needs a .branchtargets list", machine.where(ins))
    machine.need(index, "the branch index", "branch")
    chosen = index.bits[machine.active].astype(np.int64)
    if (chosen >= len(table.targets)).any():
        raise InputError("the branch index is beyond its .branchtargets", machine.where(ins))
    machine.pcs[machine.active] = np.array(table.targets)[chosen]


@control("ret", "exit")
def exit_(machine: Machine, ins: PtxInstruction) -> None:
    machine.alive = machine.alive & ~machine.active
    machine.runnable[machine.active] = False
    machine.sync.open_complete()


@control("trap")
def trap(machine: Machine, ins: PtxInstruction) -> None:
    machine.notes[f"line {ins.line}: trap is reached"] = None
    exit_(machine, ins)


@effect("call")
def call(machine: Machine, ins: PtxInstruction) -> None:
    """printf and assertions do not touch the kernel's memory; other calls are not followed."""
    names = [o.name for o in ins.operands if isinstance(o, Symbol)]
    if not names or names[0] not in SILENT_CALLS:
        called = names[0] if names else "a function pointer"
        raise InputError(f"call of {called} is outside the model", machine.where(ins))
    machine.notes[f"line {ins.line}: the call of {names[0]} is skipped"] = None


@data(
    "applypriority", "griddepcontrol", "nanosleep", "pmevent", "prefetch", "prefetchu", "setmaxnreg"
)  # fmt: skip
def no_effect(machine: Machine, ins: PtxInstruction) -> None:
    """Caches, timing, register allocation, other grids: nothing that this block could notice."""


# --- warp-wide instructions ----------------------------------------------------------------------


def converge(machine: Machine, members: Operand, ins: PtxInstruction) -> None:
    """`.sync`: lanes named in the mask wait here for each other (§9.7.15.2).

    Narrows the active lanes to the warps that are complete; the others stay at this instruction.
    """
    mask = machine.read(members, "b32")
    machine.need(mask, "the member mask")
    here = machine.ballot(machine.active)
    living = machine.ballot(machine.alive)
    complete = (mask.bits & living & ~here) == 0
    early = machine.active & ~complete
    machine.pcs[early] = ins.index
    machine.parked |= early
    machine.active = machine.active & complete


@control("bar.warp.sync")
def bar_warp_sync(machine: Machine, ins: PtxInstruction) -> None:
    """bar.warp.sync (§9.7.15.2): among the named lanes that have not exited."""
    mask = machine.read(ins.operands[0], "b32")
    converge(machine, ins.operands[0], ins)
    members = mask.bits & machine.ballot(machine.alive)
    for lane in machine.active_lanes():
        machine.record.emit(lane, BarWarpSync(int(members[lane])))


@control("shfl.sync")
def shfl(machine: Machine, ins: PtxInstruction) -> None:
    """shfl.sync (§9.7.9.6): each lane reads a register of another lane of its warp."""
    destination, value, offset, clamp = ins.operands[:4]
    converge(machine, ins.operands[4], ins)
    given = machine.read(value, "b32")
    by, control_word = machine.read(offset, "b32"), machine.read(clamp, "b32")
    for operand in (by, control_word):
        machine.need(operand, "the source lane")
    machine.record.use(given, machine.active, "shuffle")
    source, inside = _shuffle_source(machine, ins, by, control_word)
    nodes = None if given.node is None else given.node[source]
    unknown = None if given.unknown is None else given.unknown[source]
    moved = Value(given.bits[source], nodes, unknown)
    if isinstance(destination, Pair):
        machine.write(destination.first, moved)
        machine.write(destination.second, Value(inside.astype(np.uint64)))
    else:
        machine.write(destination, moved)


def _shuffle_source(
    machine: Machine, ins: PtxInstruction, by: Value, control_word: Value
) -> tuple[np.ndarray, Mask]:
    lane = machine.lanes % WARP
    step = by.bits.astype(np.int64) & 31
    clamp = control_word.bits.astype(np.int64) & 31
    segment = (control_word.bits.astype(np.int64) >> 8) & 31
    low, high = lane & segment, (lane & segment) | (clamp & ~segment)
    if ins.has("up"):
        target = lane - step
        inside = target >= high
    else:
        moves = {"down": lane + step, "bfly": lane ^ step, "idx": low | (step & ~segment)}
        target = next(moves[part] for part in ins.parts if part in moves)
        inside = target <= high
    chosen = np.where(inside, target, lane)
    return machine.lanes - lane + chosen, inside


@control("vote.sync")
def vote(machine: Machine, ins: PtxInstruction) -> None:
    """vote.sync (§9.7.13.10): known if all votes are known."""
    converge(machine, ins.operands[-1], ins)
    votes = machine.read(ins.operands[1], "pred")
    machine.record.use(votes, machine.active, "vote")
    here = machine.ballot(machine.active)
    yes = machine.ballot(machine.active & (votes.bits == 1))
    if ins.has("ballot"):
        bits = yes
    elif ins.has("all"):
        bits = (yes == here).astype(np.uint64)
    elif ins.has("any"):
        bits = (yes != 0).astype(np.uint64)
    else:
        bits = ((yes == here) | (yes == 0)).astype(np.uint64)
    machine.write(ins.operands[0], _joint(machine, ins, votes, bits))


def _joint(machine: Machine, ins: PtxInstruction, votes: Value, bits: np.ndarray) -> Value:
    """A result of the whole warp: unknown if the value of any active lane is."""
    if votes.node is None:
        return Value(bits)
    own = machine.provenance.combine(ins.opcode, [votes], machine.active)
    nodes = np.zeros(machine.count, np.int64)
    for warp in machine.warps.tolist():
        row = slice(warp * WARP, (warp + 1) * WARP)
        inputs = tuple(dict.fromkeys(own[row][machine.active[row]].tolist()))
        if any(votes.node[row][machine.active[row]]):
            nodes[row] = machine.provenance.operation(ins.opcode, inputs)
    unknown = machine.ballot(machine.active & votes.unknowns()) != 0
    return Value(bits, nodes, unknown)


@control("elect.sync")
def elect(machine: Machine, ins: PtxInstruction) -> None:
    """elect.sync elects one lane of the mask; here, as on hardware so far, the lowest."""
    destination = ins.operands[0]
    converge(machine, ins.operands[1], ins)
    machine.notes["elect.sync is taken to elect the lowest lane"] = None
    here = machine.ballot(machine.active)
    lowest = here & (~here + np.uint64(1))
    lane = np.uint64(1) << (machine.lanes % WARP).astype(np.uint64)
    chosen = (lane == lowest).astype(np.uint64)
    if isinstance(destination, Pair):
        leader = np.log2(np.maximum(lowest, np.uint64(1)).astype(np.float64)).astype(np.uint64)
        machine.write(destination.first, Value(leader))
        machine.write(destination.second, Value(chosen))
    else:
        machine.write(destination, Value(chosen))
