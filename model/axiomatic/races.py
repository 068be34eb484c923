"""Data races (PTX ISA §8.7.1) as a person reads them."""

from __future__ import annotations

from collections.abc import Iterable

from .code import Act, Test
from .outcome import Race

RaceKey = tuple[int, Act, int, Act, str]
"""Thread and instruction of one access, of the other, and the location."""


def races_of(test: Test, keys: Iterable[RaceKey]) -> list[Race]:
    """Each racing pair of instructions once, in the order of the file."""
    found = {}
    for one, first, other, second, location in keys:
        ends = sorted(
            ((test.threads[one].name, first), (test.threads[other].name, second)),
            key=lambda end: (end[0], end[1].place),
        )
        texts = [f"{name} line {act.place.line}: {act.text}" for name, act in ends]
        order = tuple((name, act.place) for name, act in ends)
        found[order, location] = Race(texts[0], texts[1], location)
    return [found[key] for key in sorted(found)]
