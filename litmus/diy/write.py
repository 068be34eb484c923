"""From the events of a cycle to the code of its threads, with all that the instructions need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...model.program import InputError
from .cycle import Cycle, Event
from .edges import HAND_OFFS, IN_THREAD, Edge
from .text import Draft, Seat


@dataclass
class Writer:
    """Writes one cycle into a draft; `registers` are those that hold what an event read."""

    cycle: Cycle
    draft: Draft
    registers: dict[int, str] = field(default_factory=dict)
    outputs: dict[int, str] = field(default_factory=dict)
    """The location that a copying read (TMA store, mma) leaves the value in."""
    copies: dict[int, str] = field(default_factory=dict)
    """The mbarrier on which a TMA load completes."""
    fresh: dict[str, int] = field(default_factory=dict)

    def write(self) -> None:
        for location in self.cycle.locations:
            self._declare(location)
        for event in self.cycle.events:
            if event.mark.kind == "tma":
                self._copy_barrier(event)
        for event in self.cycle.events:
            self._event(event)
            self._steps(event)
        self.draft.ending = f"exists ({self._condition()})"

    # --- declarations -----------------------------------------------------------------------

    def _declare(self, location: str) -> None:
        events = self.cycle.at(location)
        space = space_of(location, events)
        home = self._home(events)
        self.draft.init.append(f"{space} {location}{home}" if space else f"{location} = 0")
        if space:
            self._check_reach(location, space, events)
        for view in dict.fromkeys(event.mark.view for event in events if event.mark.view):
            name = "generic" if view == "alias" else view
            self.draft.init.append(f"{_seen(location, view)} @ {name} aliases {location}")

    def _home(self, events: list[Event]) -> str:
        """The CTA of memory that has one: where a TMA load into it completes, or its first use."""
        loads = [event for event in events if event.mark.kind == "tma" and event.writes]
        thread = self._waiter(loads[0]) if loads else events[0].thread
        return self._at(thread)

    def _at(self, thread: int) -> str:
        cta = self._seat(thread).cta
        return f" @ cta {cta}" if any(seat.cta for seat in self.draft.seats) else ""

    def _check_reach(self, location: str, space: str, events: list[Event]) -> None:
        places = [self._seat(event.thread) for event in events]
        if space == "tmem" and len({seat.cta for seat in places}) > 1:
            raise InputError(f"tensor memory {location} is used by two CTAs; place them in one")
        if len({seat.cluster for seat in places}) > 1:
            raise InputError(f"shared memory {location} is used by two clusters")

    def _seat(self, thread: int) -> Seat:
        return self.draft.seats[thread]

    def _new(self, prefix: str) -> str:
        number = self.fresh.get(prefix, 0)
        self.fresh[prefix] = number + 1
        return f"{prefix}{number}"

    def _barrier(self, thread: int) -> str:
        """A new mbarrier for one arrival, in the CTA of the thread that waits."""
        name = self._new("b")
        self.draft.init.append(f"mbarrier {name}{self._at(thread)} count 1")
        return name

    def _extra(self, space: str, prefix: str, event: Event, value: int) -> str:
        """A location of the event's own: the operand that an asynchronous operation needs."""
        name = self._new(prefix)
        home = self._at(event.thread) if space != "global" else ""
        value_text = f"{name}{home} = {value}"
        self.draft.init.append(value_text if space == "global" else f"{space} {value_text}")
        return name

    def _ones(self, event: Event) -> str:
        """A shared operand of 1 for multiplications, one a CTA."""
        name = f"one{self._seat(event.thread).cta}"
        line = f"shared {name}{self._at(event.thread)} = 1"
        if line not in self.draft.init:
            self.draft.init.append(line)
        return name

    # --- events -----------------------------------------------------------------------------

    def _emit(self, thread: int, *lines: str) -> None:
        self.draft.code[thread].extend(lines)

    def _event(self, event: Event) -> None:
        address, value = _seen(event.location, event.mark.view), str(event.written)
        if event.mark.operation == "add":
            value = str(event.written - event.previous)
        incoming = self.cycle.incoming(event)
        if incoming.dependency:
            address, value = self._depend(event, incoming, address, value)
        self._emit(event.thread, *_WRITERS[event.mark.kind](self, event, address, value))

    def _register(self, event: Event) -> str:
        taken = sum(self.cycle.events[index].thread == event.thread for index in self.registers)
        self.registers[event.index] = f"r{taken + 1}"
        return self.registers[event.index]

    def _access(self, event: Event, address: str, value: str) -> list[str]:
        prefix = _PREFIXES.get(event.mark.view, "")
        if event.writes:
            return [f"{prefix}st{event.mark.strength} {address}, {value}"]
        load = "cold" if event.mark.view == "constant" else f"{prefix}ld"
        return [f"{load}{event.mark.strength} {self._register(event)}, {address}"]

    def _atom(self, event: Event, address: str, value: str) -> list[str]:
        mark = event.mark
        old = f"{event.previous}, " if mark.operation == "cas" else ""
        head = f"atom.{mark.sem}.{mark.scope}.{mark.operation}"
        return [f"{head} {self._register(event)}, {address}, {old}{value}"]

    def _red(self, event: Event, address: str, value: str) -> list[str]:
        mark = event.mark
        return [f"red.{mark.sem}.{mark.scope}.{mark.operation} {address}, {value}"]

    def _tcgen05(self, event: Event, address: str, value: str) -> list[str]:
        if event.writes:
            return [f"tcgen05.st {address}, {value}"]
        return [f"tcgen05.ld {self._register(event)}, {address}"]

    def _mma(self, event: Event, address: str, value: str) -> list[str]:
        """D := A·1, where D is what is written or A, in tensor memory, what is read."""
        ones = self._ones(event)
        if event.writes:
            a = self._extra("shared", "a", event, event.written)
            return [f"tcgen05.mma {address}, {a}, {ones}, 0"]
        self.outputs[event.index] = self._extra("tmem", "d", event, 0)
        return [f"tcgen05.mma {self.outputs[event.index]}, {address}, {ones}, 0"]

    def _mma_acc(self, event: Event, address: str, value: str) -> list[str]:
        a = self._extra("shared", "a", event, event.written - event.previous)
        return [f"tcgen05.mma {address}, {a}, {self._ones(event)}, 1"]

    def _cp(self, event: Event, address: str, value: str) -> list[str]:
        return [f"tcgen05.cp {address}, {self._extra('shared', 's', event, event.written)}"]

    def _tma(self, event: Event, address: str, value: str) -> list[str]:
        barrier = self.copies[event.index]
        if event.writes:
            pair = f"{address}, {self._extra('global', 'g', event, event.written)}"
        else:
            self.outputs[event.index] = self._extra("shared", "s", event, 0)
            pair = f"{self.outputs[event.index]}, {address}"
        return [f"mbarrier.arrive.expect_tx {barrier}, 4", f"cp.async.bulk {pair}, {barrier}"]

    def _tma_store(self, event: Event, address: str, value: str) -> list[str]:
        if event.writes:
            source = self._extra("shared", "s", event, event.written)
            return [f"cp.async.bulk {address}, {source}"]
        self.outputs[event.index] = self._extra("global", "g", event, 0)
        return [f"cp.async.bulk {self.outputs[event.index]}, {address}"]

    # --- dependencies -----------------------------------------------------------------------

    def _depend(self, event: Event, edge: Edge, address: str, value: str) -> tuple[str, str]:
        """False dependencies, as diy makes them: the value comes in and changes nothing."""
        source = self.registers.get(self.cycle.before(event).index)
        if source is None:
            kind = self.cycle.before(event).mark.text
            raise InputError(f"{edge.text}: {kind} leaves no register to depend on")
        if edge.dependency == "Ctrl":
            label = self._new(f"LC{event.thread}")
            expected = self.cycle.before(event).expected or 0
            self._emit(event.thread, f"bne {source}, {expected}, {label}", f"{label}:")
            return address, value
        fits = event.mark.kind in _DEPENDENT[edge.dependency]
        if not fits or (event.mark.view and edge.dependency == "Addr"):
            raise InputError(f"{edge.text}: {event.mark.text} has no operand for it")
        temporary = self._new(f"t{event.thread}_")
        target = value if edge.dependency == "Data" else f"&{address}"
        self._emit(
            event.thread,
            f"xor {temporary}, {source}, {source}",
            f"add {temporary}, {temporary}, {target}",
        )
        return (address, temporary) if edge.dependency == "Data" else (f"[{temporary}]", value)

    # --- what stands between ----------------------------------------------------------------

    def _steps(self, event: Event) -> None:
        thread = event.thread
        for step in self.cycle.edges[event.index].steps:
            if step in IN_THREAD:
                self._emit(thread, *IN_THREAD[step].split("\n"))
            else:
                following = thread + (step in HAND_OFFS)
                self._synchronize(step, event, thread, following)
                thread = following

    def _synchronize(self, step: str, event: Event, here: int, there: int) -> None:
        name, _, semantics = step.partition(".")
        if name == "Mbar":
            arrive, wait, scope = semantics.split(".")
            barrier = self._barrier(there)
            self._emit(here, f"mbarrier.arrive.{arrive}.{scope} {barrier}")
            self._emit(there, _wait(f"{wait}.{scope}", barrier))
        elif name in ("Commite", "Commiti"):
            barrier = self._barrier(there)
            self._emit(here, f"tcgen05.commit {barrier}")
            self._emit(there, _wait(semantics, barrier))
        elif name in ("Tmae", "Tmai"):
            self._emit(there, _wait(semantics, self._copied(step, event)))
        else:
            self._execution_barrier(name, semantics, here, there)

    def _execution_barrier(self, name: str, semantics: str, here: int, there: int) -> None:
        first, second = self._seat(here), self._seat(there)
        level = {"BarWarp": "warp", "ClusterSync": "cluster"}.get(name, "cta")
        if getattr(first, level) != getattr(second, level):
            raise InputError(f"{name} joins threads of one {level}; see the placement")
        if name == "ClusterSync":
            self._cluster(semantics, here, there)
        elif name == "BarWarp":
            for thread in (here, there):
                self._emit(thread, "bar.warp.sync")
        else:
            number = self._new("bar").removeprefix("bar")
            arrive = "sync" if name == "BarSync" else "arrive"
            self._emit(here, f"bar.{arrive} {number}, 2")
            self._emit(there, f"bar.sync {number}, 2")

    def _cluster(self, semantics: str, here: int, there: int) -> None:
        """Every thread of a cluster takes part in its barrier."""
        cluster = self._seat(here).cluster
        if sum(seat.cluster == cluster for seat in self.draft.seats) > 2:
            raise InputError(
                "ClusterSync joins all threads of the cluster, but it has more than two; "
                "see the placement"
            )
        arrive, wait = (".relaxed", "") if semantics else (".release", ".acquire")
        for thread in (here, there):
            self._emit(thread, f"barrier.cluster.arrive{arrive}", f"barrier.cluster.wait{wait}")

    def _copy_barrier(self, event: Event) -> None:
        self.copies[event.index] = self._barrier(self._waiter(event))

    def _waiter(self, event: Event) -> int:
        """The thread that sees the copy complete: the next one after a Tmae."""
        steps = self.cycle.edges[event.index].steps
        return event.thread + any(step.startswith("Tmae") for step in steps)

    def _copied(self, step: str, event: Event) -> str:
        if event.index not in self.copies:
            raise InputError(f"{step} must follow an event that is annotated Tma")
        return self.copies[event.index]

    # --- the question -----------------------------------------------------------------------

    def _condition(self) -> str:
        parts = [
            f"P{event.thread}:{self.registers[event.index]} = {event.expected}"
            for event in self.cycle.events
            if event.expected is not None and event.index in self.registers
        ]
        parts += [
            f"{self.outputs[event.index]} = {event.expected}"
            for event in self.cycle.events
            if event.expected is not None and event.index in self.outputs
        ]
        parts += [f"{name} = {value}" for name, value in self.cycle.finals.items()]
        return r" /\ ".join(parts)


def space_of(location: str, events: list[Event]) -> str:
    """tmem, shared, or empty for global: what the instructions that use it ask for."""
    marks = [event.mark for event in events]
    if any(mark.tensor for mark in marks):
        others = [mark.text for mark in marks if not mark.tensor]
        if others:
            raise InputError(f"{location} is tensor memory: {others[0]} cannot access it")
        return "tmem"
    shared = [e.mark.text for e in events if (e.mark.kind, e.writes) in _SHARED]
    globally = [e.mark.text for e in events if (e.mark.kind, e.writes) in _GLOBAL or e.mark.view]
    if shared and globally:
        raise InputError(
            f"{location} must be shared memory for {shared[0]} and global for {globally[0]}"
        )
    return "shared" if shared else ""


_SHARED = {("tma", True), ("tma.store", False)}
_GLOBAL = {("tma", False), ("tma.store", True)}
_PREFIXES = {"surface": "su", "texture": "t"}
_WRITERS: dict[str, Callable[[Writer, Event, str, str], list[str]]] = {
    "access": Writer._access,
    "atom": Writer._atom,
    "red": Writer._red,
    "tcgen05": Writer._tcgen05,
    "mma": Writer._mma,
    "mma.acc": Writer._mma_acc,
    "cp": Writer._cp,
    "tma": Writer._tma,
    "tma.store": Writer._tma_store,
}
_DEPENDENT = {"Data": ("access", "atom", "red", "tcgen05"), "Addr": ("access", "atom", "red")}


def _seen(location: str, view: str) -> str:
    """The name of a location's view: `x_surface`."""
    return f"{location}_{view}" if view else location


def _wait(semantics: str, barrier: str) -> str:
    return f"mbarrier.try_wait.parity.{semantics} {barrier}, 0"
