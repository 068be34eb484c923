"""A schedule as text: one column an agent, time downwards, the two accesses at fault marked."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..model.verdict import Finding, Place, ScheduleRow

MAX_LANES = 4
MIN_CELL = 20
MAX_ROWS = 24
NEAR = 5
"""The largest distance from the story (see `_distances`) of a row that is worth showing."""
MARKS = {"first": "①", "second": "②"}
_OTHERS = ("others", -1, -1)

Lane = tuple[str, int, int]
"""An agent's name, its CTA and its warp."""


@dataclass(frozen=True)
class Line:
    """One line of the drawing. `style` is "head", "first", "second", "missing", "gap" or ""."""

    text: str
    style: str = ""


def swimlanes(finding: Finding, width: int) -> list[Line]:
    """The finding's schedule in at most `width` columns; empty when it has none."""
    rows = finding.schedule
    if not rows:
        return []
    lanes = choose_lanes(rows, min(MAX_LANES, width // MIN_CELL - 1))
    grid = _Grid(lanes, width)
    lines = grid.header()
    missing_after = _missing_after(rows)
    previous = -1
    for number in keep(rows):
        if number > previous + 1:
            lines.append(grid.gap(number - previous - 1))
        lines += grid.row(number, rows)
        if number == missing_after:
            lines += grid.missing(finding.missing)
        previous = number
    if previous < len(rows) - 1:
        lines.append(grid.gap(len(rows) - 1 - previous))
    return lines


def lane_of(place: Place) -> Lane:
    return place.agent, place.cta, place.warp


def choose_lanes(rows: Sequence[ScheduleRow], limit: int = MAX_LANES) -> list[Lane]:
    """The lanes at fault first, then the busiest others; what does not fit shares one lane."""
    limit = max(3, limit)
    marked = dict.fromkeys(lane_of(row.place) for row in rows if row.mark)
    steps = Counter(lane_of(row.place) for row in rows)
    others = sorted((lane for lane in steps if lane not in marked), key=lambda lane: -steps[lane])
    lanes = [*marked, *others]
    return lanes if len(lanes) <= limit else [*lanes[: limit - 1], _OTHERS]


def keep(rows: Sequence[ScheduleRow], limit: int = MAX_ROWS) -> list[int]:
    """The rows to show: all of a short schedule, else at most `limit` of those near the fault,
    or of the last ones when no access is at fault.

    A gap of one row is not worth a line of its own, so that row is kept too.
    """
    if len(rows) <= limit:
        return list(range(len(rows)))
    distances = _distances(rows)
    near = [number for number, distance in enumerate(distances) if distance <= NEAR]
    kept = set(sorted(near, key=lambda number: (distances[number], -number))[:limit])
    single = {n for n in range(len(rows)) if n not in kept and {n - 1, n + 1} <= kept | {-1}}
    return sorted(kept | single)


def _distances(rows: Sequence[ScheduleRow]) -> list[int]:
    """How far each row is from the story: 0 for the accesses at fault and their issue, 1 for the
    steps of the agents at fault while an access is pending, 2 for others then, more outside."""
    marked = [number for number, row in enumerate(rows) if row.mark]
    if not marked:
        return [0] * len(rows)
    places = {rows[number].place for number in marked}
    lanes = {lane_of(place) for place in places}
    start = next(number for number, row in enumerate(rows) if row.place in places)
    end = marked[-1]

    def distance(number: int, row: ScheduleRow) -> int:
        if row.place in places:
            return 0
        if start <= number <= end:
            return 1 if lane_of(row.place) in lanes else 2
        return 2 + min(abs(number - start), abs(number - end))

    return [distance(number, row) for number, row in enumerate(rows)]


def _missing_after(rows: Sequence[ScheduleRow]) -> int:
    """The row after which the missing edge is drawn: the earlier of the two accesses at fault."""
    marked = [n for n, row in enumerate(rows) if row.mark]
    return marked[0] if len(marked) > 1 else -1


class _Grid:
    """Columns of a drawing: step number, tile, then one column a lane."""

    def __init__(self, lanes: Sequence[Lane], width: int) -> None:
        self.lanes = list(lanes)
        self.width = width
        self.cell = max(8, (width - len(_prefix("", ""))) // len(self.lanes) - 2)

    def header(self) -> list[Line]:
        titles = [_title(lane) for lane in self.lanes]
        return list(self._lines("step", "tile", titles, "head"))

    def row(self, number: int, rows: Sequence[ScheduleRow]) -> list[Line]:
        row = rows[number]
        lane = lane_of(row.place)
        column = self.lanes.index(lane if lane in self.lanes else _OTHERS)
        text = _describe(number, rows)
        if self.lanes[column] == _OTHERS:
            text = f"{row.place.agent}: {text}"
        cells = [text if n == column else "" for n in range(len(self.lanes))]
        tile = "" if row.place.tile is None else str(row.place.tile)
        return list(self._lines(str(number + 1), tile, cells, row.mark))

    def missing(self, edge: str) -> list[Line]:
        text = f"✗ no order ① → ②{': ' + edge if edge else ''}"
        indent = _prefix("", "")
        parts = textwrap.wrap(text, self.width - len(indent))
        return [Line(indent + part, "missing") for part in parts]

    def gap(self, steps: int) -> Line:
        return Line(f"{_prefix('', '')}… {steps} step{'s' if steps > 1 else ''} …", "gap")

    def _lines(self, step: str, tile: str, cells: Sequence[str], style: str) -> Iterator[Line]:
        wrapped = [textwrap.wrap(cell, self.cell, subsequent_indent="  ") for cell in cells]
        for n in range(max(1, *map(len, wrapped))):
            parts = [cell[n] if n < len(cell) else "" for cell in wrapped]
            prefix = _prefix(step, tile) if n == 0 else _prefix("", "")
            body = "│ ".join(part.ljust(self.cell) for part in parts)
            yield Line((prefix + body).rstrip(), style)


def _prefix(step: str, tile: str) -> str:
    return f"{step:>6} {tile:>4}  "


def _title(lane: Lane) -> str:
    agent, cta, warp = lane
    return agent if lane == _OTHERS else f"{agent}, CTA {cta} warp {warp}"


def _describe(number: int, rows: Sequence[ScheduleRow]) -> str:
    """What happens in this row; a plain issue of an instruction that is then done is its text."""
    row = rows[number]
    text = row.place.text or row.place.instruction
    mark = f"{MARKS[row.mark]} " if row.mark in MARKS else ""
    return mark + text + _suffix(number, rows)


def _suffix(number: int, rows: Sequence[ScheduleRow]) -> str:
    row = rows[number]
    if row.event == "issue":
        later = any(r.place == row.place and r.event == "access" for r in rows[number + 1 :])
        return " is issued" if later else ""
    return _SUFFIXES.get(row.event, f" ({row.event})")


_SUFFIXES = {
    "access": " takes effect",
    "complete": " is complete",
    "pass": " passes",
    "blocked": " waits for ever",
}
