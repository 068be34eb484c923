"""What a front end produces: agents that execute instructions on declared objects.

A `Program` is concrete: parameters have values, loops are unrolled, one `Agent` stands for one
warp (or one thread, or one elected thread) of one CTA. Front ends build it, engines read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .instructions import Instruction


class InputError(Exception):
    """A mistake in the user's input: what, where, and what to do. Never a traceback.

    `where` reads `file:line:column` (or less, when less is known).
    """

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.where = where


class BudgetExceeded(Exception):
    """The input was understood, but a bound stopped the answer: the verdict is `unknown`."""


class TimeLimit(BudgetExceeded):
    """The user's time limit: what was found until then still counts."""


Word = tuple[object, ...]
"""A word of memory by its state space, CTA and array (`Region.word`)."""
Places = Mapping[int, tuple[int, int]]
"""CTA -> its cluster and its GPU. CTAs that are not named share cluster 0 of GPU 0."""
ONE_CLUSTER = (0, 0)


class Name(Enum):
    """An enumeration that is hashed by identity: these are keys in the innermost loops."""

    __hash__ = object.__hash__


class Space(Name):
    """State spaces that hold data (PTX ISA §5.1, and tensor memory, §9.7.18)."""

    SHARED = "shared"
    GLOBAL = "global"
    TMEM = "tmem"


@dataclass(frozen=True)
class Region:
    """The bytes one access touches: a rectangle in one memory.

    Shared and global memory have one row and columns in bytes; tensor memory has 128 lanes
    (rows) and 512 columns of 32 bits. `cta` owns the memory (-1 for global memory).
    """

    space: Space
    cta: int
    columns: tuple[int, int]
    rows: tuple[int, int] = (0, 1)
    array: str = ""
    index: int | None = None
    exclusive: bool = False
    """Each lane of the warp touches its own part, so lanes of one warp do not conflict."""

    @property
    def label(self) -> str:
        return self.array if self.index is None else f"{self.array}[{self.index}]"

    @cached_property
    def word(self) -> Word:
        """The array that it is in, whatever part of it: what litmus tests call a location."""
        return (self.space, self.cta, self.array)

    @cached_property
    def _hash(self) -> int:
        return hash((self.space, self.cta, self.columns, self.rows, self.array, self.index))

    def __hash__(self) -> int:
        return self._hash  # regions are keys in inner loops

    def overlaps(self, other: Region) -> bool:
        return (
            self.space is other.space
            and self.cta == other.cta
            and self.columns[0] < other.columns[1]
            and other.columns[0] < self.columns[1]
            and self.rows[0] < other.rows[1]
            and other.rows[0] < self.rows[1]
        )


@dataclass(frozen=True)
class Barrier:
    """One mbarrier object in the shared memory of `cta` (PTX ISA §9.7.15.16).

    `count` is the expected arrival count of a phase, or None until `mbarrier.init` sets it.
    """

    name: str
    index: int | None
    cta: int
    count: int | None
    region: Region | None = None
    """The bytes of the object, when a front end knows them (initialisation is then an access)."""

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.index, self.cta))

    def __hash__(self) -> int:
        return self._hash

    @property
    def label(self) -> str:
        return self.name if self.index is None else f"{self.name}[{self.index}]"


@dataclass(frozen=True)
class Source:
    """Where a step comes from, for people: a line of the kernel, its column, its text."""

    line: int = 0
    column: int = 0
    text: str = ""


@dataclass(frozen=True)
class Choice:
    """One data-dependent branch, taken once: `site` names it, `instance` counts its executions."""

    site: str
    instance: int


@dataclass
class Step:
    """One dynamic instruction of one agent.

    `tile` labels the iteration for people; `guard` lists the branch outcomes under which the
    step is executed (empty: always); `position` orders the steps of the agents that share a warp
    (equal positions are one warp-wide instruction), and is the index in the agent when unset.
    """

    instruction: Instruction
    source: Source = Source()
    tile: int | None = None
    guard: frozenset[tuple[Choice, bool]] = frozenset()
    position: int = -1


@dataclass
class Agent:
    """One strand of control: a warp whose lanes do the same, or fewer lanes of a warp.

    `lanes` is how many threads it stands for (arrivals and named barriers count threads).
    `thread` is the first thread's index in the CTA.
    """

    name: str
    cta: int
    warp: int
    lanes: int
    steps: list[Step] = field(default_factory=list)
    thread: int = 0
    converged: bool = True
    """It executes what the other agents of its warp execute; False when lanes diverge, for which
    nothing is assumed about how they advance."""

    @property
    def mask(self) -> int:
        """Its lanes of the warp, as bits."""
        return ((1 << self.lanes) - 1) << (0 if self.lanes == 32 else self.thread % 32)

    @property
    def label(self) -> str:
        return f"{self.name}@{self.cta}.{self.thread}"


@dataclass
class Program:
    """A concrete kernel: what runs, on which objects, and what the front end assumed.

    `arrays` maps an array's name to all regions it covers (every element, every CTA).
    `lines` is the kernel's text, for views; `bounds` and `notes` are what was cut or assumed.
    """

    name: str
    parameters: dict[str, object]
    agents: list[Agent]
    arrays: dict[str, list[Region]]
    barriers: list[Barrier]
    clusters: int = 1
    path: str = ""
    lines: list[str] = field(default_factory=list)
    bounds: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    places: Places = field(default_factory=dict)
    memo: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What all readings share and is computed once: the run, the conflicting regions."""

    @property
    def splits_warps(self) -> bool:
        """Is some warp more than one agent?"""
        warps = [(agent.cta, agent.warp) for agent in self.agents]
        return len(set(warps)) < len(warps)

    def steps(self) -> Iterator[tuple[Agent, Step]]:
        for agent in self.agents:
            for step in agent.steps:
                yield agent, step
