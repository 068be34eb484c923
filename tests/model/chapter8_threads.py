"""Threads of the oracle `chapter8`: events of a litmus test for given sources of its reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from typing import Any

from lastread.model import instructions as ins
from lastread.model.axiomatic import code
from lastread.model.instructions import Proxy, Scope

INIT = -1
"""The seat of the writes of initial values."""


class OutOfDomain(Exception):
    """The test has something that the oracle does not know."""


@dataclass(frozen=True, eq=False)
class Event:
    """Half of an atomic, another access ("R", "W"), a fence ("F") or a barrier ("B").

    Compared by identity: `event` makes equal ones once. `seat` is the thread's index, `step` the
    statement's; `partner` the write of an atomic's read; `crosses` what a proxy fence joins.
    """

    seat: int
    step: int
    kind: str
    gpu: int = -1
    cluster: int = -1
    cta: int = -1
    memory: str = ""
    address: str = ""
    proxy: Proxy = Proxy.GENERIC
    scope: Scope | None = None
    acquires: bool = False
    releases: bool = False
    red: bool = False
    sc: bool = False
    crosses: Proxy | str | None = None
    partner: Event | None = None
    barrier: ins.Bar | None = None
    counted: str = ""


event = cache(Event)


@cache
def initial_writes(test: code.Test) -> tuple[Event, ...]:
    """§8.2.6: one for each word of memory."""
    places = dict.fromkeys(location.memory for location in test.locations)
    return tuple(event(INIT, 0, "W", memory=memory, address=memory) for memory in places)


# --- running --------------------------------------------------------------------------------------


@dataclass
class Run:
    """What the threads do as far as known. A value, or a register's, is None until it is known."""

    test: code.Test
    source: dict[Event, Event]
    values: dict[Event, int | None] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    registers: dict[tuple[str, str], int | None] = field(default_factory=dict)
    blocked: bool = False

    @property
    def finished(self) -> bool:
        return not self.blocked

    def value(self, of: Event) -> int | None:
        if of.kind == "R":
            return self.value(self.source[of]) if of in self.source else None
        if of.seat == INIT:
            return next(x.initial for x in self.test.locations if x.memory == of.memory)
        return self.values.get(of)

    def known(self, write: Event) -> int:
        value = self.value(write)
        assert value is not None
        return value

    def register(self, thread: str, name: str) -> int:
        value = self.registers.get((thread, name), 0)
        assert value is not None
        return value


def run_threads(test: code.Test, source: dict[Event, Event]) -> Run:
    """Values flow from writes to the reads that have them as source, until none is new."""
    run = Run(test, source)
    while True:
        strands = [Strand(run, seat) for seat in range(len(test.threads))]
        for strand in strands:
            strand.go()
        values = {key: value for strand in strands for key, value in strand.values.items()}
        events = tuple(item for strand in strands for item in strand.events)
        if values == run.values and events == run.events:
            break
        run.values, run.events = values, events
    run.blocked = any(strand.blocked for strand in strands)
    for strand in strands:
        run.registers |= {(strand.thread.name, k): v for k, v in strand.registers.items()}
    return run


class Strand:
    """One pass over one thread's code, which stops at a branch that waits for a value."""

    def __init__(self, run: Run, seat: int) -> None:
        self.run, self.seat, self.thread = run, seat, run.test.threads[seat]
        self.events: list[Event] = []
        self.values: dict[Event, int | None] = {}
        self.registers: dict[str, int | None] = {}
        self.blocked = False
        for name, operand in self.thread.registers:
            self.registers[name] = self.operand(operand)

    def operand(self, operand: code.Operand) -> int | None:
        if isinstance(operand, code.Register):
            return self.registers.get(operand.name, 0)
        if isinstance(operand, code.AddressOf):
            return self.run.test.addresses[operand.name]
        return operand

    def go(self) -> None:
        step = 0
        while step < len(self.thread.code):
            statement = self.thread.code[step]
            if isinstance(statement, code.Branch):
                taken = self.taken(statement)
                if taken is None:
                    self.blocked = True
                    return
                if taken and statement.target <= step:
                    raise OutOfDomain("loop")
                step = statement.target if taken else step + 1
                continue
            self.execute(statement, step)
            step += 1

    def taken(self, branch: code.Branch) -> bool | None:
        left, right = self.operand(branch.left), self.operand(branch.right)
        if branch.comparison is None:
            return True
        if left is None or right is None:
            return None
        return code.compare(branch.comparison, left, right)

    def execute(self, statement: code.Move | code.Arithmetic | code.Act, step: int) -> None:
        if isinstance(statement, code.Move):
            self.registers[statement.register] = self.operand(statement.value)
        elif isinstance(statement, code.Arithmetic):
            sides = (self.operand(statement.left), self.operand(statement.right))
            self.registers[statement.register] = apply(statement.function, sides)
        else:
            self.act(statement, step)

    def act(self, act: code.Act, step: int) -> None:
        """A statement whose address or shape is not known yet has no events yet."""
        if act.outcomes or len(act.addresses) > 1:
            raise OutOfDomain(act.text)
        places = [self.place(address) for address in act.addresses]
        given = tuple(self.operand(operand) for operand in act.operands)
        if None in places or any(given[index] is None for index in act.shapes):
            self.blocked = True
            if act.result is not None:
                self.registers[act.result] = None
            return
        locations = tuple(place for place in places if place is not None)
        shape = tuple((v or 0) if i in act.shapes else 0 for i, v in enumerate(given))
        made = act.make(code.Arguments(locations, shape, self.everyone(act)))
        assert made is not None
        place = locations[0] if locations else None
        self.happen(act, made, step, place, given)

    def place(self, address: code.Operand) -> code.Location | None:
        if isinstance(address, code.AddressOf):
            return self.run.test.named[address.name]
        number = self.operand(address)
        if number is None:
            return None
        for name, known in self.run.test.addresses.items():
            if known == number:
                return self.run.test.named[name]
        raise OutOfDomain(f"no address: {number}")

    def everyone(self, act: code.Act) -> int:
        """How many threads of the CTA have this instance of a barrier in their code."""
        mates = [each for each in self.run.test.threads if each.cta == self.thread.cta]
        same = [
            any(isinstance(s, code.Act) and s.instance == act.instance for s in mate.code)
            for mate in mates
            if act.instance is not None
        ]
        return sum(same)

    def happen(
        self,
        act: code.Act,
        made: ins.Instruction,
        step: int,
        place: code.Location | None,
        given: tuple[int | None, ...],
    ) -> None:
        thread = self.thread
        at = (thread.gpu, thread.cluster, thread.cta)

        def make(kind: str, **more: Any) -> Event:
            return event(self.seat, step, kind, *at, **more)

        if isinstance(made, ins.Fence):
            flags = {"acquires": made.sem.acquires, "releases": made.sem.releases}
            self.add(make("F", scope=made.scope, sc=made.sem is ins.Sem.SC, **flags))
        elif isinstance(made, ins.FenceProxy):
            self.add(make("F", crosses=made.proxy or "alias"))
        elif isinstance(made, ins.Bar):
            self.add(make("B", barrier=made, counted=act.counted))
        elif isinstance(made, ins.Load | ins.Store | ins.Atomic) and place is not None:
            self.access(act, made, make, place, given)
        else:
            raise OutOfDomain(act.text)

    def add(self, made: Event) -> Event:
        self.events.append(made)
        return made

    def access(
        self,
        act: code.Act,
        made: ins.Load | ins.Store | ins.Atomic,
        make: Callable[..., Event],
        place: code.Location,
        given: tuple[int | None, ...],
    ) -> None:
        shared = {
            "memory": place.memory,
            "address": place.address,
            "proxy": made.proxy,
            "scope": None if made.sem is ins.Sem.WEAK else made.scope,
            "red": isinstance(made, ins.Atomic) and not made.returns,
        }
        write = read = None
        if not isinstance(made, ins.Load):
            write = make("W", releases=made.sem.releases, **shared)
        if not isinstance(made, ins.Store):
            acquires = made.sem.acquires
            read = self.add(make("R", acquires=acquires, partner=write, **shared))
        old = self.run.value(read) if read is not None else None
        if write is not None:
            self.values[self.add(write)] = term(act.writes[0], old, given)
        if act.result is not None and act.returns is not None:
            self.registers[act.result] = term(act.returns, old, given)


def term(what: code.Term, old: int | None, given: tuple[int | None, ...]) -> int | None:
    if isinstance(what, int):
        return what
    if isinstance(what, code.Read):
        return old
    if isinstance(what, code.Given):
        return given[what.index]
    return apply(what.function, tuple(term(part, old, given) for part in what.operands))


FUNCTIONS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "eq": lambda a, b: int(a == b),
    "select": lambda c, a, b: a if c else b,
}


def apply(function: str, operands: tuple[int | None, ...]) -> int | None:
    """Not known until every operand is: a dependency is by syntax (§8.10.4)."""
    return None if None in operands else FUNCTIONS[function](*operands)


# --- barriers (§9.7.15.1) -------------------------------------------------------------------------

Groups = frozenset[tuple[Event, Event]]
Key = tuple[int, int]


@dataclass(frozen=True)
class Hall:
    """Barriers while threads arrive: what each thread has to come, who waits where, who met."""

    queues: tuple[tuple[Event, ...], ...]
    open: frozenset[Event] = frozenset()
    done: frozenset[Event] = frozenset()
    """Who completed a barrier that does not re-arm."""
    met: Groups = frozenset()

    @property
    def waiting(self) -> set[int]:
        return {each.seat for each in self.open if bar(each).waits}

    def arrive(self, seat: int, everyone: dict[Key, int]) -> Hall:
        """The next barrier of a thread. Who comes after the only execution passes, after those
        who completed it (OPEN; the row of quorum4-fail asks for it)."""
        first, *rest = self.queues[seat]
        queues = (*self.queues[:seat], tuple(rest), *self.queues[seat + 1 :])
        before = {each for each in self.done if key(each) == key(first)}
        if before:
            late = {(each, first) for each in (*before, first) if bar(first).waits}
            return replace(self, queues=queues, met=self.met | late)
        return replace(self, queues=queues, open=self.open | {first}).settled(everyone)

    def settled(self, everyone: dict[Key, int]) -> Hall:
        """With every complete barrier passed; an exit can complete one, so this repeats.

        OPEN: a barrier synchronizes with itself too, which matters in ISA 6.0: §9.7.15.1 has the
        thread's own accesses before it performed for all participants, of whom it is one."""
        for at in {key(each) for each in self.open}:
            here = {each for each in self.open if key(each) == at}
            if self.complete(here, everyone):
                met = {(a, b) for a, b in product(here, here) if bar(b).waits}
                done = self.done if bar(min(here, key=id)).rearms else self.done | here
                return replace(self, open=self.open - here, done=done, met=self.met | met).settled(
                    everyone
                )
        return self

    def complete(self, here: set[Event], everyone: dict[Key, int]) -> bool:
        one = min(here, key=id)
        if bar(one).everyone:
            mates = {e.seat for queue in self.queues for e in queue if same_cta(e, one)}
            mates |= {e.seat for e in self.open if bar(e).waits and same_cta(e, one)}
            return mates <= {e.seat for e in here}
        return len(here) >= (everyone[key(one)] if one.counted == "name" else bar(one).threads)


def bar(event: Event) -> ins.Bar:
    assert event.barrier is not None
    return event.barrier


def key(event: Event) -> Key:
    """Barriers belong to a CTA."""
    return event.cta, bar(event).id


def same_cta(a: Event, b: Event) -> bool:
    return a.cta == b.cta


def barrier_groups(test: code.Test, run: Run) -> frozenset[Groups]:
    """Synchronizations of each order of arrivals in which every thread comes through."""
    return meetings(len(test.threads), tuple(each for each in run.events if each.kind == "B"))


@cache
def meetings(threads: int, arrivals: tuple[Event, ...]) -> frozenset[Groups]:
    """The same, for what arrives; runs that differ in values only share it."""
    everyone = Counter(key(each) for each in arrivals)
    seats = range(threads)
    start = Hall(tuple(tuple(e for e in arrivals if e.seat == seat) for seat in seats))
    halls, todo, found = {start}, [start], set()
    while todo:
        hall = todo.pop()
        if not any(hall.queues) and not hall.waiting:
            found.add(hall.met)
        ready = [s for s in seats if hall.queues[s] and s not in hall.waiting]
        new = {hall.arrive(seat, everyone) for seat in ready} - halls
        halls |= new
        todo += new
    return frozenset(found)
