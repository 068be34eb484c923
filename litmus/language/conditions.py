"""Conditions: quantities by name, with errors for names that nothing sets."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.axiomatic.code import (
    Compare,
    Condition,
    Connective,
    Final,
    Quantity,
    RegisterAt,
    Test,
)
from ...model.program import Space
from ...model.suggest import suggestion
from .syntax import AtEnd, Comparison, ConditionNode, Mistake, Operand, QuantityNode

COMPARISONS = {"=": "eq", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


@dataclass(frozen=True)
class Naming:
    """What a condition can name: the test's locations, and the registers of each thread."""

    test: Test
    registers: dict[str, frozenset[str]]


def condition_of(node: ConditionNode, naming: Naming) -> Condition:
    """The condition; its nesting is bounded by `syntax.combine`."""
    if isinstance(node, Comparison):
        left, right = quantity_of(node.left, naming), quantity_of(node.right, naming)
        return Compare(COMPARISONS[node.comparison], left, right)
    return Connective(node.kind, tuple(condition_of(part, naming) for part in node.parts))


def quantity_of(node: QuantityNode, naming: Naming) -> Quantity:
    if isinstance(node, AtEnd):
        return register_at(node, naming) if node.thread else anybodys(node, naming)
    if node.number is not None:
        return node.number
    return located(node, naming)


def located(node: Operand, naming: Naming) -> Quantity:
    """The final value of a location, or its address."""
    location = naming.test.named.get(node.name)
    if location is None:
        owners = [name for name, known in naming.registers.items() if node.name in known]
        hint = suggestion(node.name, naming.test.named)
        if owners:
            hint = f"; a register is written `{owners[0]}:{node.name}`"
        raise Mistake(node.place, f"no location `{node.name}` in this test{hint}")
    if not node.address:
        return Final(location.name)
    if location.space is Space.TMEM:
        raise Mistake(node.place, "the address of tensor memory is no value here")
    return naming.test.addresses[location.name]


def register_at(node: AtEnd, naming: Naming) -> RegisterAt:
    name = f"P{node.thread}" if node.thread.isdecimal() else node.thread
    if name not in naming.registers:
        known = ", ".join(naming.registers)
        raise Mistake(node.place, f"no thread `{node.thread}`; the threads are {known}")
    if node.register not in naming.registers[name]:
        hint = suggestion(node.register, sorted(naming.registers[name]))
        raise Mistake(node.place, f"{name} never sets a register `{node.register}`{hint}")
    return RegisterAt(name, node.register)


def anybodys(node: AtEnd, naming: Naming) -> RegisterAt:
    """A register whose name is unique over all threads (NVlabs)."""
    owners = [name for name, known in naming.registers.items() if node.register in known]
    if len(owners) == 1:
        return RegisterAt(owners[0], node.register)
    if owners:
        raise Mistake(
            node.place, f"`{node.register}` is set by {' and '.join(owners)}; use two names"
        )
    every = sorted(frozenset().union(*naming.registers.values()))
    hint = suggestion(node.register, every)
    raise Mistake(node.place, f"no thread sets a register `{node.register}`{hint}")
