"""A strand of program order while the graph is built: what is pending, and known bounds."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from .composition import Chain
from .graph import AccessEvent, Guard
from .instructions import Pool
from .pipes import PipeTracker
from .program import Region
from .rules import Rule


class Bound(NamedTuple):
    """Later accesses begin after this node, when the guard holds, by this rule."""

    node: int
    guard: Guard
    rule: Rule
    agent: int
    position: int
    apart: bool
    """The agent had left the step of its warp: the bound is its own."""


class Strand:
    """A thread of program order: an agent, or the agents of a warp that run together."""

    def __init__(self, number: int, merged: bool, pipes: PipeTracker) -> None:
        self.number = number
        self.merged = merged
        self.pipes = pipes
        self.position = -1
        self.step_position = -1  # of the present step: lower than `position` for a lagging lane
        self.lagging = False
        self.last: dict[int, list[int]] = {}  # the last node of each agent
        self.events: list[AccessEvent] = []
        self.by_agent: dict[int, int] = defaultdict(int)
        self.lagged_all = 0  # accesses of lanes that ran apart when they made them
        self.apart: dict[int, int] = {}  # agents apart from their warp -> what came before that
        self.parted: dict[int, int] = {}  # agents apart from their warp -> where they left it
        self.returned: dict[int, list[int]] = {}  # agents back in step -> their last nodes
        self.own: dict[tuple[int, Pool], int] = defaultdict(int)
        self.exclusive: dict[Region, int] = defaultdict(int)
        self.lanes_touched = 0  # by all lanes of an agent
        self.elected = 0  # by the one lane that issues its asynchronous operations
        self.heads: list[tuple[int, int]] = []  # (node, agent) of the previous position
        self.group: list[tuple[int, int]] = []
        self.pending: dict[Pool, int] = defaultdict(int)
        self.assumed: dict[str, int] = defaultdict(int)  # completed by a rule that is assumed
        self.generic: dict[frozenset[Chain], int] = defaultdict(int)  # by proxy fences passed
        self.mma: dict[tuple[int, int], int] = defaultdict(int)  # by agent and cta_group
        self.riders: dict[int, int] = {}  # access -> pending ld and st before it in the pipe
        self.piped: dict[int, int] = {}  # access -> those before it in the pipe (ISA 9.4)
        self.fresh: list[AccessEvent] = []
        self.done_generic = 0
        self.bounds: dict[Pool, list[Bound]] = defaultdict(list)
        self.async_bounds: list[Bound] = []
        self.last_mma: dict[int, list[int]] = {}
        self.groups: dict[tuple[int, Pool], list[int]] = defaultdict(list)  # groups are a thread's
        self.open_group: dict[tuple[int, Pool], int] = defaultdict(int)

    def bind(self, pool: Pool, bound: Bound) -> None:
        """Add a bound; an unconditional one replaces the earlier ones of its rule, unless lanes
        that lag behind may still need those."""
        if not bound.guard and not self.merged:
            earlier = self.bounds[pool]
            earlier[:] = [other for other in earlier if other.rule is not bound.rule]
        self.bounds[pool].append(bound)

    def holds_for(self, bound: Bound, agent: int) -> bool:
        """Does program order put the bound before the present step of the agent?"""
        if not self.merged or bound.agent == agent:
            return True
        limit = self.parted[agent] if self.lagging else self.step_position
        return not bound.apart and bound.position < limit

    def note(self, event: AccessEvent) -> None:
        """Keep track of who made an access, and whether in step with the other lanes."""
        bit = 1 << event.number
        self.events.append(event)
        self.by_agent[event.where.agent] |= bit
        if self.lagging:
            self.lagged_all |= bit

    def part(self, agent: int) -> None:
        """A lane leaves the others' step: it keeps what they had done together."""
        bits = 0
        for event in self.events:
            in_step = not self.lagged_all >> event.number & 1
            if in_step and event.position < self.step_position:
                bits |= 1 << event.number
        self.apart[agent] = bits
        self.parted[agent] = self.step_position

    def rejoin(self, agent: int) -> None:
        """A barrier that the lane has passed brings it back in step."""
        if self.apart.pop(agent, None) is not None:
            self.returned[agent] = self.last[agent]
