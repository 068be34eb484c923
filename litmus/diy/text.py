"""Litmus text from its parts: threads with their places, declarations, code, the condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from ...model.program import InputError

SCOPES = ("warp", "cta", "cluster", "gpu", "sys")
"""Placement of a thread against the one before it: the smallest scope that includes both. (A warp
is no scope; here it says that the threads are lanes of one warp.)"""


@dataclass(frozen=True)
class Seat:
    """Where a thread runs. Numbers are unique over the test, so that `@ cta N` is one CTA."""

    warp: int = 0
    cta: int = 0
    cluster: int = 0
    gpu: int = 0


def seats(count: int, placement: Sequence[str]) -> list[Seat]:
    """The seats of threads, from how each is placed against the one before."""
    steps = list(placement) * (count - 1) if len(placement) == 1 else list(placement)
    unknown = [step for step in steps if step not in SCOPES]
    if unknown:
        raise InputError(f"placement {unknown[0]} is none of {', '.join(SCOPES)}")
    if len(steps) != count - 1:
        raise InputError(
            f"placement has {len(steps)} words for {count} threads: "
            f"one for all, or {count - 1}, one for each thread after P0"
        )
    found = [Seat()]
    for step in steps:
        found.append(_next(found[-1], found, SCOPES.index(step)))
    return found


def _next(last: Seat, taken: Sequence[Seat], distance: int) -> Seat:
    """A new number for every level that is not shared."""
    warp, cta, cluster, gpu = (
        max(column) + 1 if distance > level else old
        for level, (column, old) in enumerate(
            zip(
                zip(*((s.warp, s.cta, s.cluster, s.gpu) for s in taken), strict=True),
                (last.warp, last.cta, last.cluster, last.gpu),
                strict=True,
            )
        )
    )
    return Seat(warp, cta, cluster, gpu)


@dataclass
class Draft:
    """A test in the making. `init` and `code` hold lines without their semicolons."""

    name: str
    seats: list[Seat]
    init: list[str] = field(default_factory=list)
    code: list[list[str]] = field(default_factory=list)
    titles: tuple[str, ...] = ()
    ending: str = ""

    def __post_init__(self) -> None:
        self.code = self.code or [[] for _ in self.seats]

    def text(self) -> str:
        head = [f"PTX {self.name}", *(f'"{title}"' for title in self.titles)]
        init = ["{", *(f"{line};" for line in self.init), "}"]
        return "\n".join([*head, *init, *self._table(), self.ending, ""])

    def _table(self) -> list[str]:
        rows = [self._places(), *zip_longest(*self.code, fillvalue="")]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        )
        return [f" {line} ;" for line in lines]

    def _places(self) -> tuple[str, ...]:
        lanes = len({seat.warp for seat in self.seats}) < len(self.seats)
        clusters = any(seat.cluster for seat in self.seats)
        return tuple(
            f"P{index}@"
            + (f"warp {seat.warp}," if lanes else "")
            + f"cta {seat.cta},"
            + (f"cluster {seat.cluster}," if clusters else "")
            + f"gpu {seat.gpu}"
            for index, seat in enumerate(self.seats)
        )


def check_name(name: str) -> str:
    """A test's name is one word of the header."""
    if not name or any(char.isspace() or char in '"{(' for char in name):
        raise InputError(f'{name!r} is no name for a test: one word without ", {{ and (')
    return name
