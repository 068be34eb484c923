"""Data-dependent branches whose bodies synchronize: every combination of outcomes is a program.

Branches with only local work (loads, stores, tcgen05.wait, fences, arithmetic) keep their guards:
the graph takes an edge of a guarded step only for accesses that imply the same outcome. A body
that arrives, waits or commits changes which phase is which, so its outcomes are enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from . import instructions as ins
from .program import BudgetExceeded, Choice, Program, Step

MAX_COMBINATIONS = 64
LOCAL = (
    ins.Load, ins.Store, ins.Use, ins.Compute, ins.Fence, ins.FenceProxyAsync, ins.FenceProxy,
    ins.WgmmaFence,
    ins.Tcgen05Ld, ins.Tcgen05St, ins.Tcgen05Wait, ins.Tcgen05Fence,
)  # fmt: skip


def synchronizing_choices(program: Program) -> list[Choice]:
    """Choices whose outcome changes barrier matching or group arithmetic."""
    found: dict[Choice, None] = {}
    for _, step in program.steps():
        if step.guard and not isinstance(step.instruction, LOCAL):
            for choice, _outcome in sorted(step.guard, key=lambda item: _order(item[0])):
                found[choice] = None
    return list(found)


def _order(choice: Choice) -> tuple[str, int]:
    return (choice.site, choice.instance)


def programs(program: Program) -> Iterator[Program]:
    """The program itself, or one for each combination of synchronizing outcomes.

    Errors: BudgetExceeded when there are more than MAX_COMBINATIONS.
    """
    choices = synchronizing_choices(program)
    if not choices:
        yield program
        return
    if 2 ** min(len(choices), 30) > MAX_COMBINATIONS:
        raise BudgetExceeded(
            f"{len(choices)} data-dependent branches synchronize; all outcomes of at most "
            f"{MAX_COMBINATIONS.bit_length() - 1} are explored"
        )
    for outcomes in product((True, False), repeat=len(choices)):
        yield decided(program, dict(zip(choices, outcomes, strict=True)))


def decided(program: Program, outcomes: dict[Choice, bool]) -> Program:
    """The program in which the given choices have the given outcomes."""
    agents = []
    for agent in program.agents:
        steps = [s for step in agent.steps if (s := _decide(step, outcomes)) is not None]
        agents.append(replace(agent, steps=steps))
    return replace(program, agents=agents)


def _decide(step: Step, outcomes: dict[Choice, bool]) -> Step | None:
    if not step.guard:
        return step
    for choice, outcome in step.guard:
        if choice in outcomes and outcomes[choice] is not outcome:
            return None
    guard = frozenset(item for item in step.guard if item[0] not in outcomes)
    return step if guard == step.guard else replace(step, guard=guard)
