"""Handlers of cp.async and its completion (PTX ISA §9.7.10.28.3; generic proxy, not bulk)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model.instructions import (
    CpAsync,
    CpAsyncCommitGroup,
    CpAsyncMbarrierArrive,
    CpAsyncWaitGroup,
)
from .ptx_mbarrier import mbarriers
from .ptx_opcodes import effect, outside
from .ptx_sync import emit_all
from .ptx_syntax import Immediate, PtxInstruction

if TYPE_CHECKING:
    from .ptx_run import Machine


@effect("cp.async.ca", "cp.async.cg")
def cp_async(machine: Machine, ins: PtxInstruction) -> None:
    """cp.async [shared], [global], size{, source size}: the rest is filled with zeros.

    The copy is recorded as unfinished; the run itself performs it at once, which a thread that
    waits for it cannot tell.
    """
    destination, source, size_operand, *rest = ins.operands
    if not isinstance(size_operand, Immediate) or len(rest) > 1 + ins.has("L2::cache_hint"):
        raise outside(machine, ins)
    size = int(size_operand.value)
    given = rest[0] if len(rest) > ins.has("L2::cache_hint") else size_operand
    read = machine.read(given, "b32")
    machine.need(read, "the source size")
    places = machine.locations(destination, "shared")
    sources = machine.locations(source, "global")
    number = machine.memory.next_store()
    for (lane, place), (_, origin) in zip(places, sources, strict=True):
        length = min(int(read.bits[lane]), size)
        target = machine.record.region(place, size, size)
        region = machine.record.region(origin, length, length) if length else None
        machine.record.emit(lane, CpAsync(target, region))
        value = machine.memory.load(origin, length)[0] if length else 0
        machine.memory.store(place, size, value, number)


@effect("cp.async.commit_group")
def commit_group(machine: Machine, ins: PtxInstruction) -> None:
    emit_all(machine, CpAsyncCommitGroup())


@effect("cp.async.wait_group", "cp.async.wait_all")
def wait_group(machine: Machine, ins: PtxInstruction) -> None:
    operand = ins.operands[0] if ins.operands else None
    pending = int(operand.value) if isinstance(operand, Immediate) else None
    emit_all(machine, CpAsyncWaitGroup(pending))


@effect("cp.async.mbarrier.arrive")
def mbarrier_arrive(machine: Machine, ins: PtxInstruction) -> None:
    """Arrives when the thread's copies are done. Without .noinc it counts itself in first."""
    noinc = ins.has("noinc")
    for lane, mbarrier in mbarriers(machine, ins.operands[0], ins):
        machine.record.emit(lane, CpAsyncMbarrierArrive(mbarrier.barrier, noinc))
        mbarrier.pending -= int(noinc)
        machine.sync.complete_phase(mbarrier)
