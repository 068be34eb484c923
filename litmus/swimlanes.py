"""A schedule as text: one column an agent, time downwards, the two accesses at fault marked."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..model.verdict import Finding, Place, ScheduleRow

MAX_LANES = 4
MIN_CELL = 26
MAX_MOMENTS = 24
NEAR = 5
"""The largest distance from the story (see `_distances`) of a moment that is worth showing."""
MARKS = {"first": "①", "second": "②"}

Lane = tuple[str, int, int | None]
"""An agent's name, its CTA, and one warp, or None for all its warps."""

_OTHERS: Lane = ("others", -1, None)


@dataclass(frozen=True)
class Line:
    """One line of the drawing. `style` is "head", "first", "second", "missing", "gap" or ""."""

    text: str
    style: str = ""


@dataclass(frozen=True)
class Moment:
    """Equal steps that several warps of an agent take one after the other; `start` is the first."""

    row: ScheduleRow
    start: int
    warps: tuple[int, ...]
    steps: int = 1

    def absorbs(self, row: ScheduleRow) -> bool:
        here = replace(self.row.place, warp=row.place.warp)
        return not (self.row.mark or row.mark) and (here, self.row.event) == (row.place, row.event)

    def with_step_of(self, row: ScheduleRow) -> Moment:
        return replace(self, steps=self.steps + 1, warps=(*self.warps, row.place.warp))


def swimlanes(finding: Finding, width: int) -> list[Line]:
    """The finding's schedule in at most `width` columns; empty when it has none."""
    if not finding.schedule:
        return []
    return list(_Drawing(finding, width).lines())


def moments(rows: Sequence[ScheduleRow]) -> list[Moment]:
    """The schedule with equal neighbours of several warps put together."""
    found: list[Moment] = []
    for number, row in enumerate(rows):
        if found and found[-1].absorbs(row):
            found[-1] = found[-1].with_step_of(row)
        else:
            found.append(Moment(row, number, (row.place.warp,)))
    return found


def lanes_of(rows: Sequence[ScheduleRow], limit: int = MAX_LANES) -> tuple[list[Lane], bool]:
    """The lanes at fault first, then the busiest others; what does not fit shares one lane.

    The second value says whether lanes are split by warp: when both accesses at fault are of one
    agent in one CTA.
    """
    marked = [row.place for row in rows if row.mark]
    by_warp = len(marked) > 1 and len({_lane(place, False) for place in marked}) == 1
    at_fault = dict.fromkeys(_lane(place, by_warp) for place in marked)
    steps = Counter(_lane(row.place, by_warp) for row in rows)
    others = sorted((lane for lane in steps if lane not in at_fault), key=lambda lane: -steps[lane])
    lanes = [*at_fault, *others]
    limit = max(3, limit)
    return (lanes if len(lanes) <= limit else [*lanes[: limit - 1], _OTHERS]), by_warp


def _lane(place: Place, by_warp: bool) -> Lane:
    return place.agent, place.cta, place.warp if by_warp else None


def near_the_fault(story: Sequence[Moment], limit: int = MAX_MOMENTS) -> list[int]:
    """The moments to show: all of a short schedule, else at most `limit` of those near the fault,
    or of the last ones when no access is at fault.

    A gap of one moment is not worth a line of its own, so that moment is kept too.
    """
    if len(story) <= limit:
        return list(range(len(story)))
    distances = _distances(story)
    near = [number for number, distance in enumerate(distances) if distance <= NEAR]
    kept = set(sorted(near, key=lambda number: (distances[number], -number))[:limit])
    single = {n for n in range(len(story)) if n not in kept and {n - 1, n + 1} <= kept | {-1}}
    return sorted(kept | single)


def _distances(story: Sequence[Moment]) -> list[int]:
    """How far each moment is from the story: 0 for the accesses at fault and their issue, 1 for
    the steps of the agents at fault while an access is pending, 2 for others then, more outside."""
    marked = [number for number, moment in enumerate(story) if moment.row.mark]
    if not marked:
        return [0] * len(story)
    places = {story[number].row.place for number in marked}
    agents = {_lane(place, False) for place in places}
    start = next(number for number, moment in enumerate(story) if moment.row.place in places)
    end = marked[-1]

    def distance(number: int, place: Place) -> int:
        if place in places:
            return 0
        if start <= number <= end:
            return 1 if _lane(place, False) in agents else 2
        return 2 + min(abs(number - start), abs(number - end))

    return [distance(number, moment.row.place) for number, moment in enumerate(story)]


class _Drawing:
    """Columns: step number, tile, then one a lane."""

    def __init__(self, finding: Finding, width: int) -> None:
        self.finding = finding
        self.width = width
        self.lanes, self.by_warp = lanes_of(finding.schedule, width // MIN_CELL)
        self.cell = max(8, (width - len(_prefix())) // len(self.lanes) - 2)
        self.story = moments(finding.schedule)
        places = {row.place for row in finding.schedule}
        self.warps = Counter((agent, cta) for agent, cta, _ in {_lane(p, True) for p in places})
        self.delayed = {row.place for row in finding.schedule if row.event == "access"}

    def lines(self) -> Iterator[Line]:
        yield from self._row([_title(lane) for lane in self.lanes], "step", "tile", "head")
        marked = [number for number, moment in enumerate(self.story) if moment.row.mark]
        previous = -1
        for number in [*near_the_fault(self.story), len(self.story)]:
            yield from self._gap(previous + 1, number)
            if number < len(self.story):
                yield from self._moment(self.story[number])
            if len(marked) > 1 and number == marked[0]:
                yield from self._missing()
            previous = number

    def _gap(self, start: int, end: int) -> Iterator[Line]:
        steps = sum(moment.steps for moment in self.story[start:end])
        if steps:
            yield Line(f"{_prefix()}… {steps} step{'s' if steps > 1 else ''} …", "gap")

    def _moment(self, moment: Moment) -> Iterator[Line]:
        place = moment.row.place
        lane = _lane(place, self.by_warp)
        text = self._describe(moment)
        if lane not in self.lanes:
            lane, text = _OTHERS, f"{place.agent}: {text}"
        cells = [text if lane == other else "" for other in self.lanes]
        tile = "" if place.tile is None else str(place.tile)
        yield from self._row(cells, str(moment.start + 1), tile, moment.row.mark)

    def _missing(self) -> Iterator[Line]:
        edge = f": {self.finding.missing}" if self.finding.missing else ""
        for part in textwrap.wrap(f"✗ no order ① → ②{edge}", self.width - len(_prefix())):
            yield Line(_prefix() + part, "missing")

    def _row(self, cells: Sequence[str], step: str, tile: str, style: str) -> Iterator[Line]:
        wrapped = [textwrap.wrap(cell, self.cell, subsequent_indent="  ") for cell in cells]
        for n in range(max(1, *map(len, wrapped))):
            parts = [cell[n] if n < len(cell) else "" for cell in wrapped]
            prefix = _prefix(step, tile) if n == 0 else _prefix()
            yield Line(
                (prefix + "│ ".join(part.ljust(self.cell) for part in parts)).rstrip(), style
            )

    def _describe(self, moment: Moment) -> str:
        """What happens; the plain issue of an instruction that is then done is just its text."""
        row = moment.row
        mark = f"{MARKS[row.mark]} " if row.mark in MARKS else ""
        event = _EVENTS.get(row.event, f" ({row.event})")
        if row.event == "issue" and not row.mark and row.place in self.delayed:
            event = " is issued"
        return mark + (row.place.text or row.place.instruction) + event + self._who(moment)

    def _who(self, moment: Moment) -> str:
        """Which warps, where the lane does not say it."""
        place = moment.row.place
        if self.by_warp or self.warps[place.agent, place.cta] == 1:
            return ""
        first, *rest = sorted(set(moment.warps))
        return f" [warps {first}-{rest[-1]}]" if rest else f" [warp {first}]"


_EVENTS = {
    "issue": "",
    "access": " takes effect",
    "complete": " is complete",
    "pass": " passes",
    "blocked": " waits for ever",
}


def _prefix(step: str = "", tile: str = "") -> str:
    return f"{step:>6} {tile:>4}  "


def _title(lane: Lane) -> str:
    agent, cta, warp = lane
    if lane == _OTHERS:
        return agent
    return f"{agent}, CTA {cta}" if warp is None else f"{agent}, CTA {cta} warp {warp}"
