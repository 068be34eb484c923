"""What one thread can do, for the enumerator: every run of its code with guessed read values.

A read may return any value of its word's *domain*: the initial value and all that some run writes
there. Domains and runs are computed in turn until nothing is added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from ..instructions import Instruction, Role
from ..program import BudgetExceeded
from .code import (
    Act,
    AddressOf,
    Apply,
    Arguments,
    Arithmetic,
    Branch,
    Given,
    Location,
    Move,
    Operand,
    Place,
    Read,
    Register,
    RegisterAt,
    State,
    Term,
    Test,
    Thread,
    compare,
    cut_address,
    cut_loop,
)
from .liveness import live_registers
from .schedules import SYNCHRONIZES
from .shadows import follows_registers, shadow, with_registers

MOST_TRACES = 4_000
"""Of one thread."""
MOST_VALUES = 64
"""Of one word."""

ReadAt = tuple[int, int]
"""A read of the thread: its step, and which read of the step."""
Sources = frozenset[ReadAt]
NOTHING: Sources = frozenset()
READING = (Role.READ, Role.ATOMIC)
Chain = frozenset[Place]
"""Instructions outside loops through which a value came about."""


@dataclass(frozen=True)
class Done:
    """One executed instruction: what it read and wrote, and which reads of the thread each write
    (`sources`) and the execution of the step (`control`) depend on."""

    act: Act
    instruction: Instruction
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    sources: tuple[Sources, ...]
    control: Sources
    ways: tuple[tuple[Chain, ...], ...] = ()
    """For each write, how the values that it depends on can have come about."""

    @property
    def silent(self) -> bool:
        """Nobody can tell that it was executed: it writes nothing, or back what it read."""
        if isinstance(self.instruction, SYNCHRONIZES) or self.instruction.signals:
            return False
        roles = [a.role for a in self.instruction.accesses]
        return not self.writes or (roles == [Role.ATOMIC] and self.writes == self.reads)


@dataclass(frozen=True)
class Trace:
    """One run of a thread. `repeats`: the step from which it goes on for ever, if it does.
    `cut`: why the run was given up."""

    steps: tuple[Done, ...]
    registers: tuple[tuple[str, int], ...]
    repeats: int = -1
    cut: str = ""
    park: Instruction | None = None
    """What a thread that repeats waits for: the test of an mbarrier that goes on failing."""

    @cached_property
    def final(self) -> dict[str, int]:
        return dict(self.registers)


MOST_CHAINS = 8
"""Kept for one value; beyond that it counts as one that came about by nothing."""


class Domain:
    """The values of one word, each with the shortest ways in which it can come about."""

    def __init__(self, initial: int) -> None:
        self.chains: dict[int, list[Chain]] = {initial: [frozenset()]}

    def without(self, place: Place) -> list[int]:
        """The values that can come about without an instruction."""
        chains = self.chains.items()
        return sorted(v for v, ways in chains if any(place not in way for way in ways))

    def add(self, value: int, way: Chain) -> bool:
        """Did that say anything new?"""
        ways = self.chains.setdefault(value, [])
        if any(known <= way for known in ways):
            return False
        ways[:] = [known for known in ways if not way <= known]
        ways.append(way)
        if len(ways) > MOST_CHAINS:
            ways[:] = [frozenset()]
        return True


class Threads:
    """All traces of all threads, and whether the loop bound or a limit was met.

    No value justifies itself (§8.10.4): what an instruction writes does not come about through
    itself. Instructions in loops are executed often, so for them only the rounds are counted.
    """

    def __init__(self, test: Test, bound: int, thin_air: bool = False) -> None:
        self.test = test
        self.bound = bound
        self.by_address: dict[int, Location] = {}
        for name, number in test.addresses.items():
            self.by_address.setdefault(number, test.named[name])
        self.domains: dict[object, Domain] = {}
        for location in test.named.values():
            self.domains.setdefault(location.word, Domain(location.initial))
        self.follows = follows_registers(test)
        self.in_loops = {place for thread in test.threads for place in _in_loops(thread)}
        if thin_air:  # without the axiom: any number may come out of nothing
            self._speculate()
        self._made: dict[tuple[object, ...], Instruction | None] = {}
        self.everyone = {thread.name: self._everyone(thread) for thread in test.threads}

    def _speculate(self) -> None:
        code = [each for thread in self.test.threads for each in thread.code]
        numbers = {n for each in code if isinstance(each, Act) for n in each.operands}
        for domain in self.domains.values():
            for number in numbers:
                if isinstance(number, int):
                    domain.add(number, frozenset())

    def traces(self) -> list[list[Trace]]:
        """Errors: BudgetExceeded when there are too many."""
        rounds = 0
        while True:
            found = [self._walk(thread) for thread in self.test.threads]
            learned = [self._learn(done) for each in found for t in each for done in t.steps]
            rounds += 1
            if not any(learned) or (self.in_loops and rounds > sum(map(_derived, found)) + 1):
                return found

    def _walk(self, thread: Thread) -> list[Trace]:
        found = []
        for trace in Walk(self, thread).traces():
            found.append(trace)
            if len(found) > MOST_TRACES:
                raise BudgetExceeded(f"{thread.name} has more than {MOST_TRACES} runs")
        return found

    def _learn(self, done: Done) -> bool:
        """Adds what was written to the domains."""
        written = [a for a in done.instruction.accesses if a.role in (Role.WRITE, Role.ATOMIC)]
        new = False
        for access, value, ways in zip(written, done.writes, done.ways, strict=True):
            domain = self.domains[access.region.word]
            own = frozenset[Place]() if done.act.place in self.in_loops else {done.act.place}
            for way in ways:
                if done.act.place not in way:
                    new |= domain.add(value, way | own)
            if len(domain.chains) > MOST_VALUES:
                raise BudgetExceeded(f"{access.region.array} takes more than {MOST_VALUES} values")
        return new

    def _everyone(self, thread: Thread) -> dict[object, int]:
        """How many threads of its CTA a barrier of all threads has, by instance."""
        mates = [other for other in self.test.threads if other.cta == thread.cta]
        found: dict[object, int] = {None: len(mates)}
        for mate in mates:
            instances = {s.instance for s in mate.code if isinstance(s, Act)} - {None}
            for instance in instances:
                found[instance] = found.get(instance, 0) + 1
        return found

    def make(
        self, thread: Thread, act: Act, locations: tuple[Location, ...], values: tuple[int, ...]
    ) -> Instruction | None:
        key = (id(act), thread.name, locations, values)
        if key not in self._made:
            everyone = self.everyone[thread.name].get(act.instance, 0) if act.counted else 0
            made = act.make(Arguments(locations, values, everyone))
            if made is not None and self.follows:
                made = with_registers(act, made)
            self._made[key] = made
        return self._made[key]


def _in_loops(thread: Thread) -> Iterator[Place]:
    """The places of statements between a loop's head and the branch back to it."""
    for number, statement in enumerate(thread.code):
        if isinstance(statement, Branch) and statement.target <= number:
            yield from (each.place for each in thread.code[statement.target : number + 1])


def _derived(traces: list[Trace]) -> int:
    """The most writes of one run whose value or execution depends on a read."""
    return max((sum(any(done.sources) for done in trace.steps) for trace in traces), default=0)


@dataclass(frozen=True)
class Point:
    """Where a walk is: the next statement, registers with what they depend on, what was done."""

    pc: int
    registers: dict[str, tuple[int, Sources]]
    steps: tuple[Done, ...] = ()
    control: Sources = NOTHING
    heads: tuple[tuple[int, tuple[tuple[str, int], ...], int], ...] = ()
    """Loop heads passed: statement, values of live registers, number of steps done then."""
    tested: tuple[tuple[int, Instruction], ...] = ()
    """Tests of an mbarrier that failed: heads passed until then, and the wait that would pass."""
    cut: str = ""


class Walk:
    """One thread's runs, depth first."""

    def __init__(self, threads: Threads, thread: Thread) -> None:
        self.threads = threads
        self.thread = thread
        self.code = thread.code
        self.live = live_registers(threads.test, thread)
        self.heads = {
            each.target
            for number, each in enumerate(thread.code)
            if isinstance(each, Branch) and each.target <= number
        }

    def traces(self) -> Iterator[Trace]:
        registers = {
            name: (self._constant(value), NOTHING) for name, value in self.thread.registers
        }
        stack = [Point(0, registers)]
        while stack:
            point = stack.pop()
            if point.cut or point.pc >= len(self.code):
                yield self._trace(point, cut=point.cut)
                continue
            if point.pc in self.heads:
                ended, point = self._head(point)
                if ended is not None:
                    yield ended
                    continue
            stack += reversed(list(self._step(point)))

    def _trace(
        self, point: Point, repeats: int = -1, cut: str = "", park: Instruction | None = None
    ) -> Trace:
        values = tuple((name, value) for name, (value, _) in sorted(point.registers.items()))
        return Trace(point.steps, values, repeats, cut, park)

    def _head(self, point: Point) -> tuple[Trace | None, Point]:
        """At a loop head: has the thread been here before in the same state, or too often?"""
        live = tuple((r, self._value(point, Register(r))[0]) for r in sorted(self.live[point.pc]))
        before = [(n, head) for n, head in enumerate(point.heads) if head[0] == point.pc]
        for number, (_, values, steps) in reversed(before):
            if values == live and all(done.silent for done in point.steps[steps:]):
                parks = [wait for heads, wait in point.tested if heads > number]
                park = parks[0] if parks else None
                return self._trace(point, repeats=steps, park=park), point
        bound = self.threads.bound
        if len(before) > bound:
            line = self.code[point.pc].place.line
            return self._trace(point, cut=cut_loop(line, bound)), point
        head = (point.pc, live, len(point.steps))
        return None, _replace(point, heads=(*point.heads, head))

    # --- one statement -----------------------------------------------------------------------

    def _step(self, point: Point) -> Iterator[Point]:
        statement = self.code[point.pc]
        used = shadow(statement) if self.threads.follows else None
        if used is not None:
            made = used.make(Arguments((), ()))
            assert made is not None
            done = Done(used, made, (), (), (), point.control)
            point = _replace(point, steps=(*point.steps, done))
        if isinstance(statement, Move):
            yield self._set(point, statement.register, *self._value(point, statement.value))
        elif isinstance(statement, Arithmetic):
            left, a = self._value(point, statement.left)
            right, b = self._value(point, statement.right)
            value = apply(statement.function, (left, right))
            yield self._set(point, statement.register, value, a | b)
        elif isinstance(statement, Branch):
            yield self._branch(point, statement)
        else:
            yield from self._act(point, statement)

    def _set(self, point: Point, register: str, value: int, sources: Sources) -> Point:
        registers = {**point.registers, register: (value, sources)}
        return _replace(point, pc=point.pc + 1, registers=registers)

    def _branch(self, point: Point, branch: Branch) -> Point:
        if branch.comparison is None:
            return _replace(point, pc=branch.target)
        left, a = self._value(point, branch.left)
        right, b = self._value(point, branch.right)
        taken = compare(branch.comparison, left, right)
        control = point.control | a | b
        return _replace(point, pc=branch.target if taken else point.pc + 1, control=control)

    def _act(self, point: Point, act: Act) -> Iterator[Point]:
        located = self._locations(point, act)
        if located is None:
            yield _replace(point, cut=cut_address(act))
            return
        locations, addresses = located
        given = [self._value(point, operand) for operand in act.operands]
        shape = tuple(v if n in act.shapes else 0 for n, (v, _) in enumerate(given))
        if not act.outcomes:
            yield from self._execute(point, act, locations, addresses, given, shape)
        for outcome in act.outcomes:
            then = self._execute(point, act, locations, addresses, given, (*shape, outcome))
            for after in then:
                assert act.result is not None
                if after.steps == point.steps:
                    after = _replace(after, tested=self._tested(point, act, locations, shape))
                registers = {**after.registers, act.result: (outcome, NOTHING)}
                yield _replace(after, registers=registers)

    def _tested(
        self, point: Point, act: Act, locations: tuple[Location, ...], shape: tuple[int, ...]
    ) -> tuple[tuple[int, Instruction], ...]:
        """The test has failed: what it would have been had it passed."""
        for outcome in act.outcomes:
            wait = self.threads.make(self.thread, act, locations, (*shape, outcome))
            if wait is not None:
                return (*point.tested, (len(point.heads), wait))
        return point.tested

    def _execute(
        self,
        point: Point,
        act: Act,
        locations: tuple[Location, ...],
        addresses: Sources,
        given: list[tuple[int, Sources]],
        shape: tuple[int, ...],
    ) -> Iterator[Point]:
        instruction = self.threads.make(self.thread, act, locations, shape)
        if instruction is None:
            yield _replace(point, pc=point.pc + 1)
            return
        words = [
            self.threads.domains[access.region.word]
            for access in instruction.accesses
            if access.role in READING
        ]
        domains = [self._values_of(act, n, word) for n, word in enumerate(words)]
        values = tuple(value for value, _ in given)
        depends = tuple(sources for _, sources in given)
        number = len(point.steps)
        control = point.control | addresses
        own = [frozenset(((number, n),)) for n in range(len(domains))]
        sources = tuple(_sources(term, own, depends) | control for term in act.writes)
        for reads in product(*domains):
            writes = tuple(evaluate(term, reads, values) for term in act.writes)
            ways = tuple(self._ways(point, each, number, words, reads) for each in sources)
            done = Done(act, instruction, reads, writes, sources, control, ways)
            after = _replace(point, pc=point.pc + 1, steps=(*point.steps, done))
            if act.result is not None and act.returns is not None:
                value = evaluate(act.returns, reads, values)
                new = {act.result: (value, _sources(act.returns, own, depends) | addresses)}
                after = _replace(after, registers={**point.registers, **new})
            yield after

    def _values_of(self, act: Act, number: int, word: Domain) -> list[int]:
        """What a read may give. If the instruction writes what it makes of that, the value does
        not come about through the instruction itself."""
        if any(_mentions(term, number) for term in act.writes):
            return word.without(act.place)
        return sorted(word.chains)

    def _ways(
        self,
        point: Point,
        sources: Sources,
        number: int,
        words: list[Domain],
        reads: tuple[int, ...],
    ) -> tuple[Chain, ...]:
        """How the values of these reads can have come about together."""
        found: set[Chain] = {frozenset()}
        for step, read in sorted(sources):
            if step == number:
                chains = words[read].chains[reads[read]]
            else:
                done = point.steps[step]
                accesses = [a for a in done.instruction.accesses if a.role in READING]
                chains = self.threads.domains[accesses[read].region.word].chains[done.reads[read]]
            found = {one | other for one in found for other in chains}
            if len(found) > MOST_CHAINS:
                return (frozenset(),)
        return tuple(found)

    # --- operands ----------------------------------------------------------------------------

    def _locations(self, point: Point, act: Act) -> tuple[tuple[Location, ...], Sources] | None:
        """What the address operands name, and the reads that they depend on; None for a value
        that is no address."""
        found, sources = [], NOTHING
        for operand in act.addresses:
            if isinstance(operand, AddressOf):
                found.append(self.threads.test.named[operand.name])
                continue
            value, depends = self._value(point, operand)
            sources |= depends
            location = self.threads.by_address.get(value)
            if location is None:
                return None
            found.append(location)
        return tuple(found), sources

    def _value(self, point: Point, operand: Operand) -> tuple[int, Sources]:
        if isinstance(operand, Register):
            return point.registers.get(operand.name, (0, NOTHING))
        return self._constant(operand), NOTHING

    def _constant(self, operand: Operand) -> int:
        if isinstance(operand, AddressOf):
            return self.threads.test.addresses[operand.name]
        return operand if isinstance(operand, int) else 0


def _replace(
    point: Point,
    pc: int | None = None,
    registers: dict[str, tuple[int, Sources]] | None = None,
    steps: tuple[Done, ...] | None = None,
    control: Sources | None = None,
    heads: tuple[tuple[int, tuple[tuple[str, int], ...], int], ...] | None = None,
    tested: tuple[tuple[int, Instruction], ...] | None = None,
    cut: str = "",
) -> Point:
    """`dataclasses.replace`, which is too slow here."""
    return Point(
        point.pc if pc is None else pc,
        point.registers if registers is None else registers,
        point.steps if steps is None else steps,
        point.control if control is None else control,
        point.heads if heads is None else heads,
        point.tested if tested is None else tested,
        cut or point.cut,
    )


def final_registers(test: Test, traces: Sequence[Trace]) -> State:
    """What the registers that the test's clauses mention hold in the end."""
    return {
        each: trace.final.get(each.register, 0)
        for thread, trace in zip(test.threads, traces, strict=True)
        for each in test.observed
        if isinstance(each, RegisterAt) and each.thread == thread.name
    }


# --- terms ----------------------------------------------------------------------------------------


def evaluate(term: Term, reads: tuple[int, ...], given: tuple[int, ...]) -> int:
    """The value of a term."""
    if isinstance(term, int):
        return term
    if isinstance(term, Read):
        return reads[term.index]
    if isinstance(term, Given):
        return given[term.index]
    return apply(term.function, tuple(evaluate(each, reads, given) for each in term.operands))


def apply(function: str, values: tuple[int, ...]) -> int:
    """The functions of `Apply`, on integers."""
    if function == "select":
        return values[1] if values[0] else values[2]
    a, b = values
    if function == "div":
        quotient = abs(a) // abs(b) if b else 0
        return quotient if (a < 0) == (b < 0) else -quotient
    return {
        "add": a + b, "sub": a - b, "mul": a * b, "and": a & b, "or": a | b, "xor": a ^ b,
        "eq": int(a == b), "min": min(a, b), "max": max(a, b),
    }[function]  # fmt: skip


def _mentions(term: Term, read: int) -> bool:
    if isinstance(term, Apply):
        return any(_mentions(each, read) for each in term.operands)
    return isinstance(term, Read) and term.index == read


def _sources(term: Term, own: list[Sources], given: tuple[Sources, ...]) -> Sources:
    """The reads that a term depends on."""
    if isinstance(term, int):
        return NOTHING
    if isinstance(term, Read):
        return own[term.index]
    if isinstance(term, Given):
        return given[term.index]
    return NOTHING.union(*(_sources(each, own, given) for each in term.operands))
