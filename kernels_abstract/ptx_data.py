"""Handlers of instructions that only compute registers (PTX ISA §9.7.1-9.7.9).

Integers and predicates are computed; floating point is not: a float result is unknown, with its
provenance.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..model.program import InputError
from .ptx_memory import LOCAL_WINDOW, SHARED_WINDOW
from .ptx_opcodes import data, outside
from .ptx_syntax import (
    TYPE_BITS,
    Address,
    Operand,
    Pair,
    PtxInstruction,
    Register,
    Symbol,
    Vector,
)
from .ptx_values import Bits, Mask, Value, choose, floats, lanewise, masked, signed, unsigned

if TYPE_CHECKING:
    from .ptx_run import Machine

Operation = Callable[..., Bits]


def is_float(kind: str) -> bool:
    return kind in ("f16", "f32", "f64", "bf16", "f16x2", "bf16x2", "tf32")


# --- integer arithmetic --------------------------------------------------------------------------


def _sub(ins: PtxInstruction, a: Bits, b: Bits) -> Bits:
    return a - b


def _mul(ins: PtxInstruction, a: Bits, b: Bits) -> Bits:
    width, is_signed = ins.bits, ins.type.startswith("s")
    if ins.has("hi"):
        return _high_product(a, b, width, is_signed)
    if ins.has("wide") and is_signed:
        return (signed(a, width) * signed(b, width)).view(np.uint64)
    return a * b


def _high_product(a: Bits, b: Bits, width: int, is_signed: bool) -> Bits:
    def high(x: int, y: int) -> int:
        if is_signed:
            x, y = _to_signed(x, width), _to_signed(y, width)
        return (x * y) >> width

    return lanewise(high, a, b)


def _to_signed(x: int, width: int) -> int:
    return x - (1 << width) if x >> (width - 1) else x


def _mad(ins: PtxInstruction, a: Bits, b: Bits, c: Bits) -> Bits:
    return _mul(ins, a, b) + c


def _quotient(x: int, y: int) -> int:
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _div(ins: PtxInstruction, a: Bits, b: Bits) -> Bits:
    if not ins.type.startswith("s"):
        return np.where(b == 0, np.uint64(2**64 - 1), a // np.where(b == 0, np.uint64(1), b))
    width = ins.bits
    return lanewise(lambda x, y: _quotient(_to_signed(x, width), _to_signed(y, width)), a, b)


def _rem(ins: PtxInstruction, a: Bits, b: Bits) -> Bits:
    return a - _div(ins, a, b) * b


def _shl(ins: PtxInstruction, a: Bits, b: Bits) -> Bits:
    return np.where(b >= ins.bits, np.uint64(0), a << np.minimum(b, np.uint64(63)))


def _shr(ins: PtxInstruction, a: Bits, b: Bits) -> Bits:
    shift = np.minimum(b, np.uint64(63))
    if ins.type.startswith("s"):
        return unsigned(signed(a, ins.bits) >> shift.astype(np.int64), 64)
    return np.where(b >= ins.bits, np.uint64(0), a >> shift)


def _extreme(ins: PtxInstruction, a: Bits, b: Bits) -> Bits:
    least = ins.parts[0] == "min"
    if ins.type.startswith("s"):
        function = np.minimum if least else np.maximum
        return unsigned(function(signed(a, ins.bits), signed(b, ins.bits)), 64)
    return np.minimum(a, b) if least else np.maximum(a, b)


def _abs(ins: PtxInstruction, a: Bits) -> Bits:
    return unsigned(np.abs(signed(a, ins.bits)), 64)


def _lop3(ins: PtxInstruction, a: Bits, b: Bits, c: Bits, table: Bits) -> Bits:
    result = np.zeros_like(a)
    for row in range(8):
        term = (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        result |= np.where((table >> np.uint64(row)) & np.uint64(1) == 1, term, np.uint64(0))
    return result


def _bfe(ins: PtxInstruction, a: Bits, position: Bits, length: Bits) -> Bits:
    width, is_signed = ins.bits, ins.type.startswith("s")

    def extract(x: int, start: int, count: int) -> int:
        start, count = start & 255, count & 255
        value = (_to_signed(x, width) if is_signed else x) >> start & ((1 << count) - 1)
        sign = x >> min(start + count - 1, width - 1) & 1 if is_signed and count else 0
        return value - (sign << count)

    return lanewise(extract, a, position, length)


def _bfi(ins: PtxInstruction, a: Bits, b: Bits, position: Bits, length: Bits) -> Bits:
    def insert(x: int, y: int, start: int, count: int) -> int:
        field = ((1 << (count & 255)) - 1) << (start & 255)
        return (y & ~field) | (x << (start & 255) & field)

    return lanewise(insert, a, b, position, length)


def _prmt(ins: PtxInstruction, a: Bits, b: Bits, selector: Bits) -> Bits:
    def permute(x: int, y: int, control: int) -> int:
        source = (x | y << 32).to_bytes(8, "little")
        result = 0
        for i in range(4):
            nibble = control >> (4 * i) & 15
            byte = source[nibble & 7]
            byte = (255 if byte & 128 else 0) if nibble & 8 else byte
            result |= byte << (8 * i)
        return result

    return lanewise(permute, a, b, selector)


def _shf(ins: PtxInstruction, a: Bits, b: Bits, c: Bits) -> Bits:
    left, wraps = ins.has("l"), ins.has("wrap")

    def funnel(low: int, high: int, count: int) -> int:
        count = count & 31 if wraps else min(count, 32)
        both = high << 32 | low
        return both << count >> 32 if left else both >> count

    return lanewise(funnel, a, b, c)


def _reverse(ins: PtxInstruction, a: Bits) -> Bits:
    width = ins.bits
    return lanewise(lambda x: int(f"{x:0{width}b}"[::-1], 2), a)


def _find_first(ins: PtxInstruction, a: Bits) -> Bits:
    width = ins.bits

    def find(x: int) -> int:
        if ins.type.startswith("s") and x >> (width - 1):
            x ^= (1 << width) - 1
        place = x.bit_length() - 1
        return width - 1 - place if ins.has("shiftamt") and x else place

    return lanewise(find, a)


INTEGER: dict[str, Operation] = {
    "add": lambda ins, a, b: a + b,
    "sub": _sub,
    "mul": _mul,
    "mad": _mad,
    "div": _div,
    "rem": _rem,
    "min": _extreme,
    "max": _extreme,
    "neg": lambda ins, a: -signed(a, ins.bits).view(np.uint64),
    "abs": _abs,
    "and": lambda ins, a, b: a & b,
    "or": lambda ins, a, b: a | b,
    "xor": lambda ins, a, b: a ^ b,
    "not": lambda ins, a: ~a,
    "cnot": lambda ins, a: (a == 0).astype(np.uint64),
    "shl": _shl,
    "shr": _shr,
    "lop3": _lop3,
    "bfe": _bfe,
    "bfi": _bfi,
    "prmt": _prmt,
    "shf": _shf,
    "brev": _reverse,
    "bfind": _find_first,
    "popc": lambda ins, a: lanewise(int.bit_count, a),
    "clz": lambda ins, a: lanewise(lambda x: ins.bits - x.bit_length(), a),
}


@data(*INTEGER)
def integer(machine: Machine, ins: PtxInstruction) -> None:
    """Operations on integers and predicates; the same opcodes on floats are unknown."""
    name = ins.parts[0]
    if not ins.types or (not is_float(ins.type) and ins.has("sat", "cc")):
        raise outside(machine, ins)
    if name == "prmt" and len(ins.parts) > 2:
        raise outside(machine, ins)
    values = [machine.read(operand, ins.type) for operand in ins.operands[1:]]
    if is_float(ins.type):
        machine.write(ins.operands[0], machine.derive(ins.opcode, values, None))
        return
    if ins.type == "pred" and name in ("and", "or"):
        machine.write(ins.operands[0], _predicate_logic(machine, ins, values))
        return
    width = ins.bits * 2 if ins.has("wide") else 32 if name in ("popc", "clz") else ins.bits
    bits = masked(INTEGER[name](ins, *(value.bits for value in values)), width)
    machine.write(ins.operands[0], machine.derive(ins.opcode, values, bits))


def _predicate_logic(machine: Machine, ins: PtxInstruction, values: list[Value]) -> Value:
    """A known false decides `and`, a known true decides `or`, whatever the other one is."""
    a, b = values
    decisive = 0 if ins.parts[0] == "and" else 1
    function = operator.and_ if decisive == 0 else operator.or_
    result = machine.derive(ins.opcode, values, function(a.bits, b.bits))
    for value in values:
        decides = ~value.unknowns() & (value.bits == decisive)
        result = choose(decides, value, result)
    return result


@data("fma", "ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh", "copysign", "testp")
def floating(machine: Machine, ins: PtxInstruction) -> None:
    values = [machine.read(operand, ins.type) for operand in ins.operands[1:]]
    machine.write(ins.operands[0], machine.derive(ins.opcode, values, None))


# --- moves, conversions, addresses ---------------------------------------------------------------


@data("mov")
def mov(machine: Machine, ins: PtxInstruction) -> None:
    destination, source = ins.operands
    if ins.bits > 64:
        raise outside(machine, ins)
    if isinstance(source, Vector):
        machine.write(destination, _pack(machine, ins, source))
    elif isinstance(destination, Vector):
        _unpack(machine, ins, destination, machine.read(source, ins.type))
    else:
        machine.write(destination, machine.read(source, ins.type))


def _pack(machine: Machine, ins: PtxInstruction, source: Vector) -> Value:
    width = ins.bits // len(source.items)
    values = [machine.read(item, f"b{width}") for item in source.items]
    bits = machine.zeros
    for i, value in enumerate(values):
        bits = bits | (masked(value.bits, width) << np.uint64(width * i))
    return machine.derive(ins.opcode, values, bits)


def _unpack(machine: Machine, ins: PtxInstruction, destination: Vector, value: Value) -> None:
    width = ins.bits // len(destination.items)
    for i, item in enumerate(destination.items):
        bits = masked(value.bits >> np.uint64(width * i), width)
        machine.write(item, machine.derive(f"{ins.opcode}.{i}", [value], bits))


@data("cvt")
def cvt(machine: Machine, ins: PtxInstruction) -> None:
    target, source = (*ins.types, "b32", "b32")[:2]
    values = [machine.read(operand, source) for operand in ins.operands[1:]]
    bits: Bits | None = None
    if not is_float(source) and not is_float(target) and not ins.has("sat"):
        width = TYPE_BITS[source]
        value = values[0].bits
        extended = unsigned(signed(value, width), 64) if source.startswith("s") else value
        bits = masked(extended, TYPE_BITS[target])
        if target.startswith("s"):
            bits = machine.sign_extended(bits, target, ins.operands[0])
    machine.write(ins.operands[0], machine.derive(ins.opcode, values, bits))


@data("cvta")
def cvta(machine: Machine, ins: PtxInstruction) -> None:
    """Generic addresses of shared and local memory are those of the window plus its base."""
    value = machine.read(ins.operands[1], ins.type)
    base = SHARED_WINDOW if ins.has("shared", "shared::cta", "shared::cluster") else 0
    base = LOCAL_WINDOW if ins.has("local") else base
    if base:
        shift = np.uint64(base)
        bits = value.bits - shift if ins.has("to") else value.bits + shift
        value = machine.derive(ins.opcode, [value], bits)
    machine.write(ins.operands[0], value)


@data("isspacep")
def isspacep(machine: Machine, ins: PtxInstruction) -> None:
    value = machine.read(ins.operands[1], "b64")
    windows = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "local": LOCAL_WINDOW}
    window = next((windows[part] for part in ins.parts if part in windows), None)
    shift = np.uint64(44)
    if window is not None:
        inside = value.bits >> shift == window >> 44
    elif ins.has("global"):
        inside = value.bits >> shift > LOCAL_WINDOW >> 44
    else:
        raise outside(machine, ins)
    machine.write(ins.operands[0], machine.derive(ins.opcode, [value], inside.astype(np.uint64)))


@data("ld.param", "ld.const")
def load_constant(machine: Machine, ins: PtxInstruction) -> None:
    """Parameters and constant memory never change: their loads are no events (§5.1.6)."""
    address = ins.operands[1]
    assert isinstance(address, Address)
    if not isinstance(address.base, Symbol):
        raise InputError("computed parameter addresses are outside the model", machine.where(ins))
    if ins.bits > 64:
        raise outside(machine, ins)
    size = ins.bits // 8
    for i, item in enumerate(elements(ins.operands[0])):
        value = machine.constant_of(address.base.name, address.offset + i * size, size, ins)
        machine.write(item, machine.extended(value, ins.type, item))


def elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


# --- comparisons and selection (§9.7.6) ----------------------------------------------------------

COMPARE: dict[str, Callable[..., Mask]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip


def _compare(ins: PtxInstruction, a: Value, b: Value) -> Bits:
    relation = next(part for part in ins.parts[1:] if part not in TYPE_BITS and part != "ftz")
    if is_float(ins.type):
        return _compare_floats(ins, relation, a, b).astype(np.uint64)
    if ins.type.startswith("s") and relation in COMPARE:
        result = COMPARE[relation](signed(a.bits, ins.bits), signed(b.bits, ins.bits))
    else:
        result = COMPARE[relation](a.bits, b.bits)
    return result.astype(np.uint64)


def _compare_floats(ins: PtxInstruction, relation: str, a: Value, b: Value) -> Mask:
    x, y = floats(a.bits, ins.bits), floats(b.bits, ins.bits)
    unordered = np.isnan(x) | np.isnan(y)
    if relation in ("num", "nan"):
        return ~unordered if relation == "num" else unordered
    if relation.endswith("u") and relation[:-1] in COMPARE:
        return unordered | COMPARE[relation[:-1]](x, y)
    return ~unordered & COMPARE[relation](x, y)


@data("setp")
def setp(machine: Machine, ins: PtxInstruction) -> None:
    a, b = (machine.read(operand, ins.type) for operand in ins.operands[1:3])
    comparable = not is_float(ins.type) or ins.type in ("f16", "f32", "f64")
    holds = machine.derive(ins.opcode, [a, b], _compare(ins, a, b) if comparable else None)
    one = machine.constant(1)
    fails = machine.derive("not.pred", [holds], holds.bits ^ one.bits)
    if len(ins.operands) > 3:
        other = machine.read(ins.operands[3], "pred")
        function = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
        name = next(part for part in ins.parts if part in function)
        holds, fails = (
            machine.derive(f"{name}.pred", [v, other], function[name](v.bits, other.bits))
            for v in (holds, fails)
        )
    destination = ins.operands[0]
    if isinstance(destination, Pair):
        machine.write(destination.first, holds)
        machine.write(destination.second, fails)
    else:
        machine.write(destination, holds)


@data("set")
def set_(machine: Machine, ins: PtxInstruction) -> None:
    a, b = (machine.read(operand, ins.type) for operand in ins.operands[1:3])
    if len(ins.operands) > 3 or is_float(ins.types[0]):
        raise outside(machine, ins)
    bits = np.where(_compare(ins, a, b) == 1, np.uint64(2**32 - 1), np.uint64(0))
    machine.write(ins.operands[0], machine.derive(ins.opcode, [a, b], bits))


@data("selp")
def selp(machine: Machine, ins: PtxInstruction) -> None:
    then, other = (machine.read(operand, ins.type) for operand in ins.operands[1:3])
    condition = machine.read(ins.operands[3], "pred")
    machine.write(ins.operands[0], machine.select(condition, then, other))


@data("slct")
def slct(machine: Machine, ins: PtxInstruction) -> None:
    kind = ins.types[0]
    then, other = (machine.read(operand, kind) for operand in ins.operands[1:3])
    test = machine.read(ins.operands[3], ins.type)
    sign = (test.bits >> np.uint64(31)) & np.uint64(1)
    condition = machine.derive("slct", [test], sign ^ np.uint64(1))
    machine.write(ins.operands[0], machine.select(condition, then, other))


@data("activemask")
def activemask(machine: Machine, ins: PtxInstruction) -> None:
    machine.write(ins.operands[0], Value(machine.ballot(machine.active)))


def written_registers(ins: PtxInstruction) -> list[Register]:
    """The registers that the first operand names."""
    first = ins.operands[0] if ins.operands else None
    items = elements(first) if first is not None else ()
    flat = [x for i in items for x in ((i.first, i.second) if isinstance(i, Pair) else (i,))]
    return [item for item in flat if isinstance(item, Register)]
