"""What an engine answers about a litmus test, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

from .code import State, Test


@dataclass(frozen=True)
class EventView:
    """One event of an execution, for pictures: `letter` (a, b, ...), its thread's index (-1 for
    initial values), the step in the thread, the instruction's text, what the event does.

    `label` reads like herd's: `Rrlx.gpu[x]=1`, `W[x]=1`, `F.sc.gpu`, `mbarrier.arrive b`.
    """

    letter: str
    thread: int
    step: int
    text: str
    label: str
    line: int = 0


@dataclass(frozen=True)
class EdgeView:
    """An edge of an execution: `kind` is po, rf, co, fr, sync or async; `rule` names the rule or
    axiom that it is from, when there is one."""

    kind: str
    source: str
    target: str
    rule: str = ""


@dataclass(frozen=True)
class Picture:
    """An execution to draw. For a forbidden one, `axiom` names what forbids it, `section` its
    place in the ISA, and `cycle` is the cycle of edges that contradicts it."""

    events: tuple[EventView, ...]
    edges: tuple[EdgeView, ...]
    state: tuple[tuple[str, int], ...]
    axiom: str = ""
    section: str = ""
    cycle: tuple[EdgeView, ...] = ()


@dataclass(frozen=True)
class Race:
    """Two accesses that race by §8.7.1: the instructions as written, with thread and line."""

    first: str
    second: str
    location: str


@dataclass
class Outcome:
    """The answer to one test in one reading.

    `states` are the distinct final values of `Test.observed`, sorted. `positive` and `negative`
    count those that satisfy the condition and those that do not. `complete` is False when a loop
    bound or a budget cut something (`cut` says what): then the states found are not all.
    `races` are distinct pairs of instructions. `hangs` tells a way not to end (termination).
    """

    test: Test
    isa: str
    reading: str
    engine: str
    asked: str = "condition"
    """The property: "condition", or "termination"."""
    states: list[State] = field(default_factory=list)
    positive: int = 0
    negative: int = 0
    complete: bool = True
    cut: tuple[str, ...] = ()
    bound: int | None = None
    """How often a loop may be repeated, when the test has loops."""
    races: list[Race] = field(default_factory=list)
    hangs: tuple[str, ...] = ()
    unfinished: bool = False
    """Some schedules of the barriers do not end: their runs are in no state."""
    executions: int = 0
    candidates: int = 0
    witness: Picture | None = None
    """An execution that satisfies the condition (`show`)."""
    forbidden: Picture | None = None
    """The candidate nearest to satisfying an unreachable condition, with what forbids it."""
    seconds: float = 0.0

    @property
    def observation(self) -> str:
        if self.positive and self.negative:
            return "Sometimes"
        return "Always" if self.positive else "Never"

    @property
    def holds(self) -> bool | None:
        """Does the quantified condition hold (or: does every fair run end)? None: not known."""
        if self.asked == "termination":
            return False if self.hangs else (True if self.complete else None)
        if self.test.quantifier == "forall":
            return False if self.negative else (True if self.complete else None)
        found = bool(self.positive)
        if not found and not self.complete:
            return None
        return found == (self.test.quantifier == "exists")
