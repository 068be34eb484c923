"""A cycle of edges as events: threads, locations, and the values that its outcome implies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...model.program import InputError
from .edges import Edge, Mark

_NAMES = "xyzwvu"


@dataclass
class Event:
    """One access of the cycle.

    `written` is what it writes, after `previous` in coherence order; `expected` what it reads in
    the cycle's outcome (None: the cycle says nothing).
    """

    index: int
    thread: int
    location: str
    mark: Mark
    reads: bool
    writes: bool
    written: int = 0
    previous: int = 0
    expected: int | None = None


@dataclass
class Cycle:
    """Events in the order of the cycle; edge i leaves event i, and the last returns to event 0."""

    edges: list[Edge]
    events: list[Event]
    finals: dict[str, int] = field(default_factory=dict)
    """The final values that Co edges ask for."""

    @property
    def threads(self) -> int:
        return self.events[-1].thread + 1

    @property
    def locations(self) -> list[str]:
        return list(dict.fromkeys(event.location for event in self.events))

    def incoming(self, event: Event) -> Edge:
        return self.edges[event.index - 1]

    def before(self, event: Event) -> Event:
        return self.events[event.index - 1]

    def after(self, event: Event) -> Event:
        return self.events[(event.index + 1) % len(self.events)]

    def at(self, location: str) -> list[Event]:
        return [event for event in self.events if event.location == location]


def make_cycle(edges: Sequence[Edge], marks: Sequence[Mark]) -> Cycle:
    """Check the cycle, and give its events their places and values.

    The list is taken as it stands: its last edge must be external (see `names.rotated`).
    """
    check_edges(edges)
    events = _events(edges, marks)
    cycle = Cycle(list(edges), events)
    for location in cycle.locations:
        _give_values(cycle, location)
    return cycle


# --- does it type-check? ------------------------------------------------------------------------


def check_edges(edges: Sequence[Edge]) -> None:
    """What a cycle must have before directions are looked at."""
    external = [edge.text for edge in edges if edge.external]
    if not external:
        raise InputError("no external edge: a cycle goes through at least two threads (Rfe, ...)")
    if len(external) == 1:
        raise InputError(
            f"{external[0]} is the only external edge: the cycle never comes back to its thread"
        )
    if not any(edge.relation and edge.external for edge in edges):
        raise InputError(
            "no communication between threads (Rfe, Fre, Coe): nothing to observe, and threads "
            "that wait for each other around the cycle never start"
        )
    moving = [edge.text for edge in edges if edge.moves]
    if len(moving) == 1:
        raise InputError(
            f"{moving[0]} is the only edge to another location: the cycle never comes back to its "
            "location"
        )


def _events(edges: Sequence[Edge], marks: Sequence[Mark]) -> list[Event]:
    count = sum(edge.moves for edge in edges)
    events: list[Event] = []
    thread = location = 0
    for index, edge in enumerate(edges):
        name = _location(location % count if count else 0)
        reads, writes = _directions(edges[index - 1], edge, marks[index])
        events.append(Event(index, thread, name, marks[index], reads, writes))
        thread += edge.external
        location += edge.moves
    return events


def _location(number: int) -> str:
    return _NAMES[number] if number < len(_NAMES) else f"x{number}"


def _directions(incoming: Edge, outgoing: Edge, mark: Mark) -> tuple[bool, bool]:
    """Whether the event between two edges is used as a read and as a write."""
    uses = {incoming.target, outgoing.source}
    if len(uses) == 2 and not mark.both:
        names = {"R": "a read", "W": "a write"}
        raise InputError(
            f"{incoming.text} ends in {names[incoming.target]}, but {outgoing.text} starts from "
            f"{names[outgoing.source]} (only an atomic, Amo.add for instance, is both)"
        )
    _check_mark(mark, uses)
    return "R" in uses, "W" in uses or mark.both


def _check_mark(mark: Mark, uses: set[str]) -> None:
    reason = ""
    if mark.kind == "access" and mark.sem == "release" and "R" in uses:
        reason = "a load does not release; Acq or Rlx would be legal"
    elif mark.kind == "access" and mark.sem == "acquire" and "W" in uses:
        reason = "a store does not acquire; Rel or Rlx would be legal"
    elif mark.view in ("texture", "constant") and "W" in uses:
        reason = f"nothing writes through the {mark.view} proxy; Surf would be legal"
    elif mark.kind in ("red", "cp") and "R" in uses:
        reason = "it gives no value back; its event must be a write"
    if reason:
        raise InputError(f"{mark.text}: {reason}")


# --- values -------------------------------------------------------------------------------------


def _give_values(cycle: Cycle, location: str) -> None:
    """Number the writes in coherence order, and say what each read gets."""
    events = cycle.at(location)
    order = _coherence(cycle, [event for event in events if event.writes])
    for number, event in enumerate(order):
        event.previous, event.written = number, number + 1
    for event in events:
        if event.reads:
            event.expected = _expected(cycle, event)
    if any(cycle.edges[event.index].relation == "co" for event in events):
        cycle.finals[location] = len(order)
    if any(event.mark.kind == "mma.acc" and event.expected is not None for event in events):
        cycle.finals[location] = len(order)


def _expected(cycle: Cycle, event: Event) -> int | None:
    """From-reads without a reads-from gets the value just before the write that it comes before."""
    if cycle.incoming(event).relation == "rf":
        return cycle.before(event).written
    if event.writes:
        return event.previous
    if cycle.edges[event.index].relation == "fr":
        return cycle.after(event).previous
    return None


def _coherence(cycle: Cycle, writes: list[Event]) -> list[Event]:
    """An order of the writes that the communication edges allow, nearest to that of the cycle."""
    earlier: dict[int, set[int]] = {event.index: set() for event in writes}
    just_before: dict[int, int] = {}
    for event in writes:
        for source in _must_precede(cycle, event):
            earlier[event.index].add(source)
        if event.reads and cycle.incoming(event).relation == "rf":
            just_before[event.index] = cycle.before(event).index
    found = _ordered([], [event.index for event in writes], earlier, just_before)
    if found is None:
        raise InputError(
            "the communication edges contradict each other: "
            f"no order of the writes to {writes[0].location} fits them"
        )
    return [cycle.events[index] for index in found]


def _must_precede(cycle: Cycle, event: Event) -> list[int]:
    """The writes that the edge into this write puts before it."""
    relation, before = cycle.incoming(event).relation, cycle.before(event)
    if relation == "co" or (relation == "fr" and before.writes):
        return [before.index]
    if relation == "fr" and cycle.incoming(before).relation == "rf":
        return [cycle.before(before).index]
    if relation == "rf" and event.reads:
        return [before.index]
    return []


def _ordered(
    done: list[int],
    rest: list[int],
    earlier: dict[int, set[int]],
    just_before: dict[int, int],
) -> list[int] | None:
    """Depth-first: the first total order with `earlier`, atomics next to what they read."""
    if not rest:
        return done
    for index in rest:
        late = not earlier[index] <= set(done)
        apart = index in just_before and done[-1:] != [just_before[index]]
        if not late and not apart:
            others = [other for other in rest if other != index]
            found = _ordered([*done, index], others, earlier, just_before)
            if found is not None:
                return found
    return None
