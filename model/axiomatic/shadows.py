"""Registers for the rules that ask who uses a loaded value (`register-use`, `issue`).

Moves and arithmetic pass values on, branches need them. They are no accesses, but tests with
tcgen05.ld keep them as steps, so that a use can complete a load in readings that grant it.
"""

from __future__ import annotations

from dataclasses import replace

from .. import instructions as ins
from ..instructions import Instruction
from .code import Act, Arguments, Arithmetic, Branch, Operand, Register, Statement, Test


def follows_registers(test: Test) -> bool:
    """Does some thread load from tensor memory?"""
    statements = (each for thread in test.threads for each in thread.code)
    return any(each.text.startswith("tcgen05.ld") for each in statements)


def shadow(statement: Statement) -> Act | None:
    """A move, arithmetic or branch as an instruction of the model, when it uses registers."""
    if isinstance(statement, Act):
        return None
    if isinstance(statement, Branch):
        names = _registers(statement.left, statement.right)
        instruction: Instruction = ins.Use(names, "branch")
        used = bool(names)
    else:
        function, used = "mov", True
        if isinstance(statement, Arithmetic):
            function, names = statement.function, _registers(statement.left, statement.right)
        else:
            names = _registers(statement.value)
        instruction = ins.Compute(statement.register, names, function)

    def make(arguments: Arguments) -> Instruction:
        return instruction

    return Act(statement.place, statement.text, make) if used else None


def with_registers(act: Act, instruction: Instruction) -> Instruction:
    """The instruction with the names of the registers that it loads and stores."""
    if isinstance(instruction, (ins.Load, ins.Tcgen05Ld)):
        return replace(instruction, register=act.result or "")
    if isinstance(instruction, (ins.Store, ins.Tcgen05St)):
        return replace(instruction, registers=_registers(*act.operands))
    if isinstance(instruction, ins.Atomic):
        registers = _registers(*act.operands)
        return replace(instruction, register=act.result or "", registers=registers)
    return instruction


def _registers(*operands: Operand) -> tuple[str, ...]:
    return tuple(each.name for each in operands if isinstance(each, Register))
