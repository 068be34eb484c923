"""The thread row: names of threads, and where in the hierarchy each one runs (PTX ISA §8.5).

CTA numbers are per cluster and per GPU as written. The model wants numbers that are unique over
the whole test, so the distinct places are counted here.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...model.axiomatic.code import Place
from ...model.suggest import suggestion
from .syntax import MAX_THREADS, Column, Mistake

LEVELS = ("warp", "cta", "cluster", "gpu")


@dataclass(frozen=True)
class Seat:
    """One thread's place: unique numbers, and the CTA as written for `@ cta N`."""

    name: str
    warp: int
    cta: int
    cluster: int
    gpu: int
    written_cta: int


def seats_of(columns: tuple[Column, ...]) -> tuple[Seat, ...]:
    """The threads of the row, with unique numbers of CTAs, clusters and warps."""
    check_names(columns)
    written = [levels_of(column) for column in columns]
    clusters = numbering([(at["gpu"], at["cluster"]) for at in written])
    ctas = numbering([(at["gpu"], at["cluster"], at["cta"]) for at in written])
    warps = warps_of(ctas, [at.get("warp") for at in written])
    return tuple(
        Seat(column.name, warp, cta, cluster, at["gpu"], at["cta"])
        for column, at, warp, cta, cluster in zip(
            columns, written, warps, ctas, clusters, strict=True
        )
    )


def check_names(columns: tuple[Column, ...]) -> None:
    if len(columns) > MAX_THREADS:
        raise Mistake(columns[MAX_THREADS].place, f"more than {MAX_THREADS} threads")
    names: set[str] = set()
    for column in columns:
        if column.name in names:
            raise Mistake(column.place, f"two threads named `{column.name}`")
        names.add(column.name)


def levels_of(column: Column) -> dict[str, int]:
    """What the cell says; a level left out is 0, except that a warp is then the thread's own."""
    found: dict[str, int] = {}
    for place, level, number in column.levels:
        if level not in LEVELS:
            raise Mistake(
                place,
                f"`{level}` is no level; legal: {', '.join(LEVELS)}{suggestion(level, LEVELS)}",
            )
        if level in found:
            raise Mistake(place, f"`{level}` is given twice for {column.name}")
        if number < 0:
            raise Mistake(place, f"`{level} {number}`: levels are numbered from 0")
        found[level] = number
    return {"cta": 0, "cluster": 0, "gpu": 0} | found


def numbering(keys: list[tuple[int, ...]]) -> list[int]:
    """Each key's rank among the distinct keys, in order of appearance."""
    ranks = {key: rank for rank, key in enumerate(dict.fromkeys(keys))}
    return [ranks[key] for key in keys]


def warps_of(ctas: list[int], written: list[int | None]) -> list[int]:
    """The warps: as written, else one that nobody else in the CTA has."""
    taken = {(cta, warp) for cta, warp in zip(ctas, written, strict=True) if warp is not None}
    warps = []
    for cta, warp in zip(ctas, written, strict=True):
        if warp is None:
            warp = next(free for free in range(len(ctas)) if (cta, free) not in taken)
            taken.add((cta, warp))
        warps.append(warp)
    return warps


def cta_of(seats: tuple[Seat, ...], level: tuple[str, int] | None, place: Place) -> int:
    """The CTA that `@ cta N` means: that of the first thread whose written number is N."""
    if level is None:
        return seats[0].cta
    name, number = level
    if name != "cta":
        raise Mistake(place, f"memory belongs to a CTA: write `@ cta {number}`, not `@ {name}`")
    for seat in seats:
        if seat.written_cta == number:
            return seat.cta
    known = ", ".join(str(cta) for cta in dict.fromkeys(seat.written_cta for seat in seats))
    raise Mistake(place, f"no thread is in cta {number}; the threads' CTAs: {known}")
