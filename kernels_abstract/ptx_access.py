"""Handlers of loads, stores and atomics (PTX ISA §9.7.9.8-9.7.9.12, §9.7.15.5-9.7.15.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..model.instructions import Atomic, Load, Scope, Sem, Store
from ..model.program import Region
from .ptx_data import elements
from .ptx_memory import Location, Stored
from .ptx_opcodes import data, effect, outside
from .ptx_syntax import Discard, Operand, PtxInstruction
from .ptx_values import Value

if TYPE_CHECKING:
    from .ptx_run import Machine

SPACES = {
    "global": "global", "shared": "shared", "shared::cta": "shared", "shared::cluster": "shared",
    "local": "local",
}  # fmt: skip
SCOPES = {"cta": Scope.CTA, "cluster": Scope.CLUSTER, "gpu": Scope.GPU, "sys": Scope.SYS}
SEMANTICS = {sem.value: sem for sem in Sem}


def space_of(ins: PtxInstruction) -> str:
    return next((SPACES[part] for part in ins.parts[1:] if part in SPACES), "generic")


def scope_of(ins: PtxInstruction, default: Scope) -> Scope:
    return next((SCOPES[part] for part in ins.parts[1:] if part in SCOPES), default)


def sem_of(ins: PtxInstruction, default: Sem) -> Sem:
    return next((SEMANTICS[part] for part in ins.parts[1:] if part in SEMANTICS), default)


def _ordering(machine: Machine, ins: PtxInstruction) -> tuple[Sem, Scope]:
    """Semantics and scope of ld and st; `.volatile` is relaxed with system scope (§8.4.1)."""
    if ins.has("mmio") or ins.bits > 64:
        raise outside(machine, ins)
    if ins.has("volatile"):
        return Sem.RELAXED, Scope.SYS
    return sem_of(ins, Sem.WEAK), scope_of(ins, Scope.CTA)


class _Results:
    """The element values that a load collects, lane by lane."""

    def __init__(self, machine: Machine) -> None:
        self.bits = machine.zeros.copy()
        self.node = np.zeros(machine.count, np.int64)
        self.unknown = np.zeros(machine.count, np.bool_)

    def set(self, lane: int, bits: int | None, node: int) -> None:
        self.bits[lane], self.node[lane], self.unknown[lane] = bits or 0, node, bits is None

    def value(self) -> Value:
        unknown = self.unknown if self.unknown.any() else None
        return Value(self.bits, self.node if self.node.any() else None, unknown)


@effect("ld")
def load(machine: Machine, ins: PtxInstruction) -> None:
    """ld, ld.global.nc: every element of the result comes from this load.

    A strong load may read what another thread stores meanwhile (§8.9.2): which value, only the
    schedule knows, so it stays unknown.
    """
    sem, scope = _ordering(machine, ins)
    items = elements(ins.operands[0])
    size = ins.bits // 8
    results = [_Results(machine) for _ in items]
    found: dict[int, _Content] = {}
    for lane, location in machine.locations(ins.operands[1], space_of(ins)):
        if location.space == "local":
            _load_local(machine, lane, location, size, results)
            continue
        content = found.get(id(location))
        if content is None:
            content = found[id(location)] = _content(machine, location, size, len(items))
        node, register = machine.record.loaded(lane, content.region, content.version)
        machine.record.emit(lane, Load(content.region, register, sem, scope))
        for i, (result, bits) in enumerate(zip(results, content.parts, strict=True)):
            single = len(results) == 1
            own = node if single else machine.provenance.operation(f"part{i}", (node,))
            result.set(lane, bits if sem is Sem.WEAK else None, own)
    for item, result in zip(items, results, strict=True):
        machine.write(item, machine.extended(result.value(), ins.type, item))


@dataclass(frozen=True, slots=True)
class _Content:
    """What a load finds at one address; its lanes that read there share it."""

    region: Region
    version: int
    parts: tuple[int | None, ...]


def _content(machine: Machine, location: Location, size: int, count: int) -> _Content:
    region = machine.record.region(location, size * count, size)
    whole, version = machine.memory.load(location, size * count)
    if count == 1:
        return _Content(region, version, (whole,))
    places = [location.moved(i * size) for i in range(count)]
    return _Content(region, version, tuple(machine.memory.load(at, size)[0] for at in places))


def _load_local(
    machine: Machine, lane: int, location: Location, size: int, results: list[_Results]
) -> None:
    for i, result in enumerate(results):
        found = machine.local.load(lane, location.offset + i * size, size)
        if isinstance(found, Stored):
            result.set(lane, None if found.unknown else found.bits, found.node)
        else:
            result.set(lane, None, machine.provenance.operation("local", found))


@data("st.param")
def store_parameter(machine: Machine, ins: PtxInstruction) -> None:
    """Arguments of a call; calls that are understood (printf) do nothing with them."""


@effect("st")
def store(machine: Machine, ins: PtxInstruction) -> None:
    sem, scope = _ordering(machine, ins)
    values = [machine.read(item, ins.type) for item in elements(ins.operands[1])]
    size = ins.bits // 8
    places = machine.locations(ins.operands[0], space_of(ins))
    shared = [(lane, location) for lane, location in places if location.space != "local"]
    registers = machine.record.registers_of(values, [lane for lane, _ in shared])
    number = machine.memory.next_store()
    for lane, location in places:
        if location.space == "local":
            _store_local(machine, lane, location, size, values)
    for (lane, location), names in zip(shared, registers, strict=True):
        region = machine.record.region(location, size * len(values), size)
        known = [None if _is_unknown(v, lane) else int(v.bits[lane]) for v in values]
        machine.record.emit(lane, Store(region, names, sem, scope, _constant_text(known)))
        for i, bits in enumerate(known):
            machine.memory.store(location.moved(i * size), size, bits, number)


def _is_unknown(value: Value, lane: int) -> bool:
    return value.unknown is not None and bool(value.unknown[lane])


def _constant_text(known: list[int | None]) -> str | None:
    """Names a stored constant, so that equal stores are seen to be equal."""
    if None in known:
        return None
    return ",".join(f"{bits:#x}" for bits in known)


def _store_local(
    machine: Machine, lane: int, location: Location, size: int, values: list[Value]
) -> None:
    for i, value in enumerate(values):
        node = 0 if value.node is None else int(value.node[lane])
        unknown = _is_unknown(value, lane)
        offset = location.offset + i * size
        machine.local.store(lane, Stored(offset, size, int(value.bits[lane]), node, unknown))


@effect("atom", "red")
def atomic(machine: Machine, ins: PtxInstruction) -> None:
    """atom and red: relaxed.gpu unless said otherwise; the result is unknown."""
    if ins.bits > 64:
        raise outside(machine, ins)
    returns = ins.parts[0] == "atom"
    operands = ins.operands if returns else (Discard(), *ins.operands)
    destination, address, *inputs = operands
    sem, scope = sem_of(ins, Sem.RELAXED), scope_of(ins, Scope.GPU)
    values = [machine.read(item, ins.type) for operand in inputs for item in elements(operand)]
    items = elements(destination)
    size = ins.bits // 8
    length = max(ins.vector_length, 1)
    places = machine.locations(address, space_of(ins))
    registers = machine.record.registers_of(values, [lane for lane, _ in places])
    number = machine.memory.next_store()
    results = [_Results(machine) for _ in items]
    for (lane, location), names in zip(places, registers, strict=True):
        region = machine.record.region(location, size * length, size)
        machine.memory.store(location, size * length, None, number)
        register = "" if _discards(items) else _atomic_result(machine, lane, region, results)
        machine.record.emit(lane, Atomic(region, register, names, sem, scope))
    for item, result in zip(items, results, strict=True):
        machine.write(item, machine.extended(result.value(), ins.type, item))


def _discards(items: tuple[Operand, ...]) -> bool:
    return all(isinstance(item, Discard) for item in items)


def _atomic_result(machine: Machine, lane: int, region: Region, results: list[_Results]) -> str:
    """No two threads get the same old value for sure: a leaf for this thread alone."""
    node, register = machine.record.loaded(lane, region, -1 - lane)
    for result in results:
        result.set(lane, None, node)
    return register
