"""A litmus test as data: named memory, threads of instructions over registers, a condition.

Front ends (`litmus/parser.py`, `litmus/nvlabs.py`, `litmus/diy.py`) make a `Test`; the engines
(`enumerate.py`, `smt.py`) read it. Values are integers. What an instruction writes is a `Term`
over what it reads and its operands, which each engine evaluates in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from ..instructions import Instruction, Proxy
from ..program import Barrier, Region, Space, Word

LOCATION_BYTES = 4
"""Every location is one 32-bit word; copies and transaction counts are in bytes of it."""


class Place(NamedTuple):
    """Line and column in the file, from 1."""

    line: int
    column: int


# --- memory -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Location:
    """One name for one word of memory.

    `memory` names the word itself and `address` the virtual address, so that two names with one
    `memory` and two `address`es need an alias fence (PTX ISA §8.6). `proxy` is the view that the
    name was declared as. `cta` owns shared and tensor memory (-1: global memory).
    """

    name: str
    memory: str
    address: str
    space: Space = Space.GLOBAL
    cta: int = -1
    proxy: Proxy = Proxy.GENERIC
    initial: int = 0
    offset: int = 0
    """Where the word lies in its memory, in bytes; `Test.named` places all words apart."""

    @property
    def view(self) -> str:
        """The virtual address as accesses give it: empty for the word's first."""
        return "" if self.address == self.memory else self.address

    @cached_property
    def region(self) -> Region:
        """The bytes; the same for all names of a word, but a second name in tensor memory, whose
        cells have no second address, starts elsewhere in the cell."""
        end = self.offset + LOCATION_BYTES
        start = self.offset + (1 if self.space is Space.TMEM and self.view else 0)
        return Region(self.space, self.cta, (start, end), array=self.memory)

    @property
    def word(self) -> Word:
        """Names with equal words are names of the same bytes."""
        return self.region.word


@dataclass(frozen=True)
class Register:
    """A register of the thread that names it."""

    name: str


@dataclass(frozen=True)
class AddressOf:
    """The address of a location, as a value (`&x`) or as the operand of an instruction (`x`)."""

    name: str


Operand = int | Register | AddressOf


# --- what an instruction computes -----------------------------------------------------------------


@dataclass(frozen=True)
class Read:
    """The value of the instruction's n-th read (READ and ATOMIC accesses, in their order)."""

    index: int = 0


@dataclass(frozen=True)
class Given:
    """The value of the n-th of `Act.operands`."""

    index: int = 0


@dataclass(frozen=True)
class Apply:
    """A function of terms: add sub mul div and or xor eq (1 or 0), or `select` c ? a : b.

    Division rounds towards zero; by zero it gives 0 (PTX leaves it unspecified).
    """

    function: str
    operands: tuple[Term, ...]


Term = int | Read | Given | Apply


# --- threads --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Move:
    """`register` := `value`."""

    place: Place
    text: str
    register: str
    value: Operand


@dataclass(frozen=True)
class Arithmetic:
    """`register` := `left` function `right`, with the functions of `Apply`."""

    place: Place
    text: str
    register: str
    function: str
    left: Operand
    right: Operand


@dataclass(frozen=True)
class Branch:
    """To `target` (an index into the thread's code; its length is the end) when `left` compares
    with `right`: eq ne lt le gt ge. Without a comparison it is a goto."""

    place: Place
    text: str
    target: int
    comparison: str | None = None
    left: Operand = 0
    right: Operand = 0


class Arguments(NamedTuple):
    """What `Act.make` gets: the locations that `addresses` name and the values of `operands`.

    `everyone` is how many threads an unqualified barrier waits for (see `Act.counted`).
    """

    locations: tuple[Location, ...]
    values: tuple[int, ...]
    everyone: int = 0


@dataclass(frozen=True)
class Act:
    """An instruction that the memory model sees.

    `make` gives the model's instruction. Its reads, in the order of its accesses, are `Read(0)`,
    `Read(1)`, ...; `writes` has a term for each of its writes (WRITE and ATOMIC accesses), again
    in order. `result` gets the value of `returns`.

    `shapes` lists the operands (indices into `operands`) whose values `make` needs, a barrier's
    name for instance; `make` gets 0 for all the others, so that executions that differ in data
    only share what is made.

    `outcomes` makes the instruction one of unknown outcome (`mbarrier.test_wait`): each value is
    tried, given to `make` as one more value at the end, and is the value of `returns` too, which
    must then be None. If `make` returns None, nothing happens.

    `counted` is for barriers that wait for "all threads": "cta" counts the threads of the CTA
    whose code contains `instance`; "name" counts those that execute it with the same values.
    """

    place: Place
    text: str
    make: Callable[[Arguments], Instruction | None]
    addresses: tuple[Operand, ...] = ()
    operands: tuple[Operand, ...] = ()
    shapes: tuple[int, ...] = ()
    writes: tuple[Term, ...] = ()
    result: str | None = None
    returns: Term | None = None
    outcomes: tuple[int, ...] = ()
    counted: str = ""
    instance: object = None


Statement = Move | Arithmetic | Branch | Act


@dataclass(frozen=True)
class Thread:
    """One thread, where it runs, its code, and the registers that do not start at 0.

    `warp` is unique in the CTA unless threads were put into one warp.
    """

    name: str
    code: tuple[Statement, ...]
    warp: int = 0
    cta: int = 0
    cluster: int = 0
    gpu: int = 0
    registers: tuple[tuple[str, Operand], ...] = ()


# --- the question ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RegisterAt:
    """`P0:r1` at the end of the thread."""

    thread: str
    register: str

    def __str__(self) -> str:
        return f"{self.thread}:{self.register}"


@dataclass(frozen=True)
class Final:
    """The final value of a location: that of any coherence-maximal write (§8.9.6)."""

    location: str

    def __str__(self) -> str:
        return self.location


Quantity = int | RegisterAt | Final


@dataclass(frozen=True)
class Compare:
    """`left` and `right` compared: eq ne lt le gt ge."""

    comparison: str
    left: Quantity
    right: Quantity


@dataclass(frozen=True)
class Connective:
    """`and`, `or` (of any number) or `not` (of one)."""

    kind: str
    parts: tuple[Condition, ...]


Condition = Compare | Connective
TRUE = Connective("and", ())

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def compare(comparison: str, left: int, right: int) -> bool:
    """A comparison of integers, by its PTX name."""
    return _COMPARE[comparison](left, right)


def quantities(condition: Condition) -> tuple[RegisterAt | Final, ...]:
    """The registers and locations that a condition mentions, each once, in order."""
    found: dict[RegisterAt | Final, None] = {}
    if isinstance(condition, Compare):
        sides = (condition.left, condition.right)
        found |= {side: None for side in sides if not isinstance(side, int)}
    else:
        for part in condition.parts:
            found |= dict.fromkeys(quantities(part))
    return tuple(found)


State = dict[RegisterAt | Final, int]


def holds(condition: Condition, state: State) -> bool:
    """The condition in a final state that has all quantities it mentions."""
    if isinstance(condition, Compare):
        left, right = (
            side if isinstance(side, int) else state[side]
            for side in (condition.left, condition.right)
        )
        return compare(condition.comparison, left, right)
    answers = (holds(part, state) for part in condition.parts)
    if condition.kind == "and":
        return all(answers)
    if condition.kind == "or":
        return any(answers)
    return not next(answers)


@dataclass(frozen=True)
class Test:
    """A litmus test.

    `quantifier`: exists, ~exists or forall. `filter` keeps executions that satisfy it. `shown` are
    the quantities of the `locations` clause. `barriers` are the mbarriers, with the count they
    have from the start (None: the code initialises them).
    """

    name: str
    threads: tuple[Thread, ...]
    locations: tuple[Location, ...]
    quantifier: str
    condition: Condition
    filter: Condition = TRUE
    shown: tuple[RegisterAt | Final, ...] = ()
    barriers: tuple[Barrier, ...] = ()
    path: str = ""
    text: str = ""
    """The file's text, for views and for the hash."""
    description: tuple[str, ...] = ()
    condition_text: str = ""
    """The quantified condition as written, for the report."""
    expectations: tuple[tuple[str, str], ...] = field(default=())
    """What the corpus expects: (when, what), see `litmus/corpus_tests.py`."""

    __test__ = False  # not a test class of pytest's

    @cached_property
    def named(self) -> dict[str, Location]:
        words = dict.fromkeys(location.memory for location in self.locations)
        offsets = {word: LOCATION_BYTES * number for number, word in enumerate(words)}
        return {
            location.name: replace(location, offset=offsets[location.memory])
            for location in self.locations
        }

    @cached_property
    def addresses(self) -> dict[str, int]:
        """The number that stands for `&x`; far from the values that tests use."""
        names = dict.fromkeys(location.address for location in self.locations)
        numbers = {name: 0x10000 + 16 * index for index, name in enumerate(names)}
        return {location.name: numbers[location.address] for location in self.locations}

    @cached_property
    def observed(self) -> tuple[RegisterAt | Final, ...]:
        """What a state of the report shows: the quantities of the clauses, each once."""
        every = (*self.shown, *quantities(self.filter), *quantities(self.condition))
        return tuple(dict.fromkeys(every))

    def thread(self, name: str) -> Thread | None:
        return next((thread for thread in self.threads if thread.name == name), None)


def values_of(operands: Sequence[Operand], lookup: Callable[[Operand], int]) -> tuple[int, ...]:
    """The operands' values by a thread's registers."""
    return tuple(lookup(operand) for operand in operands)


def cut_loop(line: int, bound: int) -> str:
    """Why a run was given up in a loop."""
    return f"the loop at line {line} goes round more than {bound} times (--bound)"


def cut_address(act: Act) -> str:
    """Why a run was given up at an address."""
    return f"line {act.place.line}, `{act.text}`: the address may be no location's"
