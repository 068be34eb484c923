"""One agent while its code is unrolled: its variables, its steps, and the budget they spend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..model.instructions import Instruction
from ..model.program import Agent, BudgetExceeded, Choice, Source, Step

STEP_BUDGET = 150_000
WORK_BUDGET = 600_000
"""Statements, iterations, array elements and agents: all that takes time without being a step."""
COMPILE_COST = 20
AGENT_COST = 8
"""Compiling a statement, or starting an agent, takes as long as executing so many statements."""


@dataclass
class Budget:
    """Bounds the unrolling. `loops` holds the open loops, to name the one to blame."""

    steps: int = STEP_BUDGET
    work: int = WORK_BUDGET
    loops: list[tuple[int, str]] = field(default_factory=list)
    """How many iterations each open loop has, and its name."""

    def spend(self, work: int, blame: str = "") -> None:
        self.work -= work
        if self.work < 0:
            raise self.exceeded(f"{WORK_BUDGET:,} statements", blame)

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise self.exceeded(f"{STEP_BUDGET:,} steps")

    def exceeded(self, bound: str, blame: str = "") -> BudgetExceeded:
        if self.loops and not blame:
            iterations, loop = max(self.loops)
            blame = f"{loop} has {iterations:,} iterations"
        why = f": {blame}" if blame else ""
        return BudgetExceeded(f"the kernel unrolls to more than {bound}{why}; use smaller values")


@dataclass
class Strand:
    """The state of one agent's unrolling.

    `path` is where in the code the agent is (statement and iteration, outermost first), so that
    the threads of a warp can be lined up; `keys` keeps it for each step when `lined_up`.
    """

    agent: Agent
    variables: list[Any]
    budget: Budget
    cta_threads: int
    """Threads of all agents of the CTA: what `bar.sync 0` waits for."""
    warp_threads: int
    """Threads of this agent's warp: what `bar.warp.sync` lines up."""
    lined_up: bool = False
    tile: int | None = None
    guard: frozenset[tuple[Choice, bool]] = frozenset()
    path: tuple[int, ...] = ()
    keys: list[tuple[int, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        agent = self.agent
        self.cta, self.warp, self.lanes = agent.cta, agent.warp, agent.lanes
        self.kind = (agent.cta, agent.warp % 4, agent.lanes, self.cta_threads, self.warp_threads)
        """Strands of one kind have the same instructions, given the same operands."""

    def emit(self, instruction: Instruction, source: Source, ordinal: int) -> None:
        self.budget.step()
        self.agent.steps.append(Step(instruction, source, self.tile, self.guard))
        if self.lined_up:
            self.keys.append((*self.path, ordinal))


Statement = Callable[[Strand], None]


def line_up(strands: list[Strand]) -> None:
    """Gives the steps of threads their positions: the same place in the code, the same number."""
    places = {key for strand in strands for key in strand.keys}
    positions = {key: position for position, key in enumerate(sorted(places))}
    for strand in strands:
        for step, key in zip(strand.agent.steps, strand.keys, strict=True):
            step.position = positions[key]
