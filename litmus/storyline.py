"""Which steps of a long schedule tell the story of a finding. A choice for the eye: it says nothing
about order, and what it leaves out is counted."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..model.verdict import Place, ScheduleRow

SHORT = 20
"""A schedule of so many moments is shown whole."""
CONTEXT = 2
"""How many moments of the same agent are shown before one that matters."""

Actor = tuple[str, int]
"""An agent's name and its CTA."""


@dataclass(frozen=True)
class Moment:
    """Equal steps that several warps of an agent take one after the other; `start` is the first."""

    row: ScheduleRow
    start: int
    warps: tuple[int, ...]
    steps: int = 1

    @property
    def actor(self) -> Actor:
        return actor_of(self.row.place)

    def absorbs(self, row: ScheduleRow) -> bool:
        here = replace(self.row.place, warp=row.place.warp)
        return not (self.row.mark or row.mark) and (here, self.row.event) == (row.place, row.event)

    def with_step_of(self, row: ScheduleRow) -> Moment:
        return replace(self, steps=self.steps + 1, warps=(*self.warps, row.place.warp))


def actor_of(place: Place) -> Actor:
    return place.agent, place.cta


def moments(rows: Sequence[ScheduleRow]) -> list[Moment]:
    """The schedule with equal neighbours of several warps put together."""
    found: list[Moment] = []
    for number, row in enumerate(rows):
        if found and found[-1].absorbs(row):
            found[-1] = found[-1].with_step_of(row)
        else:
            found.append(Moment(row, number, (row.place.warp,)))
    return found


def shown(story: Sequence[Moment]) -> list[int]:
    """The moments to show: all of a short schedule, else those that matter and what led to them.

    A gap of one moment is not worth a line of its own, so that moment is shown too, unless it would
    take a column of its own.
    """
    if len(story) <= SHORT:
        return list(range(len(story)))
    marked = [number for number, moment in enumerate(story) if moment.row.mark]
    if not marked:
        return list(range(len(story) - SHORT, len(story)))
    late = marked[-1]  # what its agent did meanwhile is no part of the story
    kept = {late, *_context(story, _matters(story, marked) - {late})}
    actors = {story[number].actor for number in kept}
    single = {n for n in range(1, len(story)) if {n - 1, n + 1} <= kept}
    return sorted(kept | {n for n in single if story[n].actor in actors})


def _matters(story: Sequence[Moment], marked: Sequence[int]) -> set[int]:
    """The accesses at fault, their issue, and the hand-offs that lead from one to the other."""
    second, first = marked[0], marked[-1]
    issues = {_issue(story, first), _issue(story, second)}
    return {first, second, *issues, *hand_offs(story, _issue(story, first), second)}


def _issue(story: Sequence[Moment], access: int) -> int:
    """The last moment before an access that is of the same instruction; else the access."""
    place = story[access].row.place
    return next((n for n in range(access - 1, -1, -1) if story[n].row.place == place), access)


def _context(story: Sequence[Moment], numbers: set[int]) -> Iterator[int]:
    for number in numbers:
        yield number
        same = (n for n in range(number - 1, -1, -1) if story[n].actor == story[number].actor)
        for _, before in zip(range(CONTEXT), same, strict=False):
            yield before


def hand_offs(story: Sequence[Moment], start: int, end: int) -> list[int]:
    """A shortest chain of arrivals and passed waits from the actor of `start` to that of `end`,
    in between these moments; empty if there is none."""
    arrivals: dict[str, list[int]] = defaultdict(list)
    for number in range(start, end):
        if object_ := _arrives_at(story[number]):
            arrivals[object_].append(number)
    queue: deque[tuple[int, list[int]]] = deque([(end, [])])
    seen: set[int] = set()
    while queue:
        number, chain = queue.popleft()
        if chain and story[number].actor == story[start].actor:
            return chain
        for wait in _waits_before(story, start, number):
            for arrival in reversed(arrivals[_passes(story[wait])]):
                if arrival < wait and arrival not in seen:
                    seen.add(arrival)
                    queue.append((arrival, [*chain, wait, arrival]))
    return []


def _waits_before(story: Sequence[Moment], start: int, number: int) -> Iterator[int]:
    """The waits that this moment's actor has passed since `start`, the latest first."""
    for earlier in range(number - 1, start, -1):
        if story[earlier].actor == story[number].actor and _passes(story[earlier]):
            yield earlier


def _passes(moment: Moment) -> str:
    """The barrier whose wait is passed here; "" if none."""
    return _operand(moment) if moment.row.event == "pass" else ""


def _arrives_at(moment: Moment) -> str:
    """The barrier at which this moment arrives; "" if none."""
    name = moment.row.place.instruction
    if "commit" in name:
        return _operand(moment) if moment.row.event == "complete" else ""
    arrives = "arrive" in name or name.startswith("bar")
    return _operand(moment) if arrives and moment.row.event == "issue" else ""


def _operand(moment: Moment) -> str:
    """The first operand: `corr_empty[1]` of `mbarrier.try_wait.parity corr_empty[1], 0`."""
    return moment.row.place.text.partition(" ")[2].partition(",")[0]
