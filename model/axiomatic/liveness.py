"""Which registers matter at each statement: a loop that comes back with the same is a spin loop."""

from __future__ import annotations

from .code import (
    Act,
    Arithmetic,
    Branch,
    Move,
    Operand,
    Register,
    RegisterAt,
    Statement,
    Test,
    Thread,
)


def live_registers(test: Test, thread: Thread) -> list[frozenset[str]]:
    """For each statement (and the end), the registers whose values may still be used; at the end
    those that the test's clauses mention."""
    code = thread.code
    at_end = frozenset(
        each.register
        for each in test.observed
        if isinstance(each, RegisterAt) and each.thread == thread.name
    )
    live: list[frozenset[str]] = [frozenset()] * len(code) + [at_end]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(code))):
            after = frozenset[str]().union(*(live[n] for n in _next(code, number)))
            here = (after - _defines(code[number])) | _uses(code[number])
            if here != live[number]:
                live[number], changed = here, True
    return live


def _next(code: tuple[Statement, ...], number: int) -> tuple[int, ...]:
    statement = code[number]
    if not isinstance(statement, Branch):
        return (number + 1,)
    if statement.comparison is None:
        return (statement.target,)
    return (number + 1, statement.target)


def _defines(statement: Statement) -> frozenset[str]:
    if isinstance(statement, (Move, Arithmetic)):
        return frozenset((statement.register,))
    if isinstance(statement, Act) and statement.result is not None:
        return frozenset((statement.result,))
    return frozenset()


def _uses(statement: Statement) -> frozenset[str]:
    operands: tuple[Operand, ...]
    if isinstance(statement, Move):
        operands = (statement.value,)
    elif isinstance(statement, (Arithmetic, Branch)):
        operands = (statement.left, statement.right)
    else:
        operands = (*statement.addresses, *statement.operands)
    return frozenset(each.name for each in operands if isinstance(each, Register))
