"""A schedule as text: one column an agent, time downwards, the two accesses at fault marked."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..model.verdict import Finding, Place, ScheduleRow
from .storyline import Moment, moments, shown

MAX_LANES = 4
MIN_CELL = 26
MARKS = {"first": "①", "second": "②"}

Lane = tuple[str, int, int | None]
"""An agent's name, its CTA, and one warp, or None for all its warps."""

_OTHERS: Lane = ("others", -1, None)


@dataclass(frozen=True)
class Line:
    """One line of the drawing. `style` is "head", "first", "second", "missing", "gap" or ""."""

    text: str
    style: str = ""


def swimlanes(finding: Finding, width: int) -> list[Line]:
    """The finding's schedule in at most `width` columns; empty when it has none."""
    if not finding.schedule:
        return []
    return list(_Drawing(finding, width).lines())


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


class _Drawing:
    """Columns: step number, tile, then one a lane."""

    def __init__(self, finding: Finding, width: int) -> None:
        self.finding = finding
        self.width = width
        self.story = moments(finding.schedule)
        self.shown = shown(self.story)
        rows = [self.story[number].row for number in self.shown]
        self.lanes, self.by_warp = lanes_of(rows, width // MIN_CELL)
        self.cell = max(8, (width - len(_prefix())) // len(self.lanes) - 3)
        places = {row.place for row in finding.schedule}
        self.warps = Counter((agent, cta) for agent, cta, _ in {_lane(p, True) for p in places})
        self.delayed = {row.place for row in finding.schedule if row.event == "access"}

    def lines(self) -> Iterator[Line]:
        yield from self._row([_title(lane) for lane in self.lanes], "step", "tile", "head")
        marked = [number for number, moment in enumerate(self.story) if moment.row.mark]
        previous = -1
        for number in [*self.shown, len(self.story)]:
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
        what = "not across proxies" if self.finding.kind == "proxy" else "no order"
        for part in textwrap.wrap(f"✗ {what} ① → ②{edge}", self.width - len(_prefix())):
            yield Line(_prefix() + part, "missing")

    def _row(self, cells: Sequence[str], step: str, tile: str, style: str) -> Iterator[Line]:
        wrapped = [textwrap.wrap(cell, self.cell, subsequent_indent="  ") for cell in cells]
        for n in range(max(1, *map(len, wrapped))):
            parts = [cell[n] if n < len(cell) else "" for cell in wrapped]
            prefix = _prefix(step, tile) if n == 0 else _prefix()
            yield Line(
                (prefix + " │ ".join(part.ljust(self.cell) for part in parts)).rstrip(), style
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
        """Which warps, where the lane does not say it, and how often each of them does it."""
        place = moment.row.place
        first, *rest = sorted(set(moment.warps))
        often = moment.steps // (1 + len(rest))
        times = f" ×{often}" if often > 1 else ""
        if self.by_warp or self.warps[place.agent, place.cta] == 1:
            return times
        return times + (f" [warps {first}-{rest[-1]}]" if rest else f" [warp {first}]")


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
