"""Handlers of mbarrier instructions and cluster addresses (PTX ISA §9.7.15.16, §9.7.9.22-23)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..model.instructions import (
    MbarrierArrive,
    MbarrierInit,
    MbarrierInval,
    MbarrierTryWait,
    Scope,
    Sem,
)
from ..model.program import Barrier, InputError
from .ptx_access import scope_of, sem_of, space_of
from .ptx_control import target_of
from .ptx_memory import CTA_SHIFT
from .ptx_opcodes import control, data, effect, outside
from .ptx_sync import Mbarrier, passes
from .ptx_syntax import Address, Discard, Immediate, Operand, PtxInstruction
from .ptx_values import Value

if TYPE_CHECKING:
    from .ptx_run import Machine


# --- mbarrier ------------------------------------------------------------------------------------


def mbarriers(
    machine: Machine, operand: Operand, ins: PtxInstruction
) -> list[tuple[int, Mbarrier]]:
    """The mbarrier object of each active lane."""
    found = []
    for lane, location in machine.locations(operand, space_of(ins)):
        if location.space != "shared":
            raise InputError("an mbarrier must be in shared memory", machine.where(ins))
        key = (location.array, location.cta, location.offset)
        if key not in machine.sync.mbarriers:
            region = machine.record.region(location, 8, 8)
            barrier = Barrier(region.array, region.index, region.cta, None, region)
            machine.sync.mbarriers[key] = Mbarrier(barrier)
        found.append((lane, machine.sync.mbarriers[key]))
    return found


def number_of(machine: Machine, operand: Operand) -> Callable[[int], int]:
    """A count or parity, which must be known, as a function of the lane."""
    value = machine.read(operand, "b32")
    machine.need(value, "the operand")
    return lambda lane: int(value.bits[lane])


@effect("mbarrier.init")
def mbarrier_init(machine: Machine, ins: PtxInstruction) -> None:
    count = number_of(machine, ins.operands[1])
    for lane, mbarrier in mbarriers(machine, ins.operands[0], ins):
        mbarrier.count = mbarrier.pending = count(lane)
        mbarrier.phase = mbarrier.bytes = 0
        machine.record.emit(lane, MbarrierInit(mbarrier.barrier, count(lane)))


@effect("mbarrier.inval")
def mbarrier_inval(machine: Machine, ins: PtxInstruction) -> None:
    for lane, mbarrier in mbarriers(machine, ins.operands[0], ins):
        mbarrier.count = 0
        machine.record.emit(lane, MbarrierInval(mbarrier.barrier))


@effect("mbarrier.arrive", "mbarrier.arrive.expect_tx")
def mbarrier_arrive(machine: Machine, ins: PtxInstruction) -> None:
    """mbarrier.arrive{.expect_tx} state, [addr]{, count or bytes} (§9.7.15.16.13)."""
    if ins.has("noComplete", "noinc"):
        raise outside(machine, ins)
    state, address, *rest = _with_state(ins)
    given = number_of(machine, rest[0] if rest else Immediate(1))
    sem, scope = sem_of(ins, Sem.RELEASE), scope_of(ins, Scope.CTA)
    tokens = machine.zeros.copy()
    for lane, mbarrier in mbarriers(machine, address, ins):
        tokens[lane] = mbarrier.phase
        expects = ins.has("expect_tx")
        count, bytes_ = (1, given(lane)) if expects else (given(lane), 0)
        machine.record.emit(
            lane, MbarrierArrive(mbarrier.barrier, count, expect=bytes_, sem=sem, scope=scope)
        )
        mbarrier.bytes += bytes_
        mbarrier.pending -= count
        machine.sync.complete_phase(mbarrier)
    machine.write(state, Value(tokens))


def _with_state(ins: PtxInstruction) -> tuple[Operand, ...]:
    """Remote arrives may leave out the state operand."""
    if isinstance(ins.operands[0], Address):
        return (Discard(), *ins.operands)
    return ins.operands


@effect("mbarrier.expect_tx", "mbarrier.complete_tx")
def mbarrier_tx(machine: Machine, ins: PtxInstruction) -> None:
    given = number_of(machine, ins.operands[1])
    for lane, mbarrier in mbarriers(machine, ins.operands[0], ins):
        bytes_ = given(lane)
        expect, complete = (bytes_, 0) if ins.has("expect_tx") else (0, bytes_)
        step = MbarrierArrive(
            mbarrier.barrier, 0, expect, complete, Sem.RELAXED, scope_of(ins, Scope.CTA)
        )
        machine.record.emit(lane, step)
        mbarrier.bytes += expect - complete
        machine.sync.complete_phase(mbarrier)


@control("mbarrier.try_wait", "mbarrier.test_wait")
def mbarrier_wait(machine: Machine, ins: PtxInstruction) -> None:
    """A wait in a loop blocks until its phase is complete; a single try is taken to fail."""
    if not _is_loop(machine, ins):
        note = f"line {ins.line}: {ins.opcode} outside a loop is taken to fail"
        machine.notes[note] = None
        machine.write(ins.operands[0], machine.constant(0))
        return
    given = number_of(machine, ins.operands[2])
    sem, scope = sem_of(ins, Sem.ACQUIRE), scope_of(ins, Scope.CTA)
    found = mbarriers(machine, ins.operands[1], ins)
    machine.write(ins.operands[0], machine.constant(1))
    for lane, mbarrier in found:
        parity = given(lane) & 1
        machine.record.emit(lane, MbarrierTryWait(mbarrier.barrier, parity, sem, scope))
        if not passes(mbarrier, parity):
            mbarrier.waiting.append((lane, parity))
            machine.sync.block(lane)


def _is_loop(machine: Machine, ins: PtxInstruction, reach: int = 16) -> bool:
    """Whether a branch soon after goes back to just before: the loop of a blocking wait."""
    for later in machine.code[ins.index + 1 : ins.index + 1 + reach]:
        if later.parts[0] == "bra":
            goal = target_of(machine, later)
            if ins.index - reach <= goal <= ins.index:
                return True
        elif later.parts[0] not in ("selp", "setp", "mov", "and", "xor", "not", "nanosleep"):
            return False
    return False


# --- cluster addresses ---------------------------------------------------------------------------


@data("mapa")
def mapa(machine: Machine, ins: PtxInstruction) -> None:
    """The same shared variable in the CTA of another rank (§9.7.9.23)."""
    address, rank = machine.read(ins.operands[1], ins.type), machine.read(ins.operands[2], "b32")
    shift = np.uint64(CTA_SHIFT)
    low = np.uint64((1 << CTA_SHIFT) - 1)
    window = (address.bits >> np.uint64(44)) << np.uint64(44)
    bits = window | (rank.bits << shift) | (address.bits & low)
    machine.write(ins.operands[0], machine.derive(ins.opcode, [address, rank], bits))


@data("getctarank")
def getctarank(machine: Machine, ins: PtxInstruction) -> None:
    address = machine.read(ins.operands[1], ins.type)
    window = np.uint64((1 << 44) - 1)
    bits = (address.bits & window) >> np.uint64(CTA_SHIFT)
    machine.write(ins.operands[0], machine.derive(ins.opcode, [address], bits))
