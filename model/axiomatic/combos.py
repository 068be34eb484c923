"""One trace for each thread, such that every value that is read is written by somebody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..instructions import Role
from ..program import Region
from .code import Test
from .traces import Trace


def combinations(test: Test, traces: Sequence[Sequence[Trace]]) -> Iterator[tuple[Trace, ...]]:
    """One trace a thread, such that every value that is read is written by somebody.

    What is read and written is a set of (word, value), as bits.
    """
    bits = _Bits()
    initial = bits.of((each.region, each.initial) for each in test.named.values())
    written = [[bits.of(_pairs(trace, Role.WRITE)) for trace in each] for each in traces]
    wanted = [[bits.of(_pairs(trace, Role.READ)) for trace in each] for each in traces]
    later = [0]
    for each in reversed(written):
        later.append(later[-1] | _union(each))
    later.reverse()

    def choose(
        number: int, chosen: tuple[Trace, ...], has: int, needs: int
    ) -> Iterator[tuple[Trace, ...]]:
        if number == len(traces):
            yield chosen
            return
        to_come = later[number + 1]
        for trace, gives, takes in zip(
            traces[number], written[number], wanted[number], strict=True
        ):
            there = has | gives
            missing = (needs | takes) & ~there
            if not missing & ~to_come:
                yield from choose(number + 1, (*chosen, trace), there, missing)

    return choose(0, (), initial, 0)


class _Bits:
    """Numbers pairs of a word and a value as they come."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[Region, int], int] = {}

    def of(self, pairs: Iterable[tuple[Region, int]]) -> int:
        found = 0
        for pair in pairs:
            found |= 1 << self.numbers.setdefault(pair, len(self.numbers))
        return found


def _union(sets: Iterable[int]) -> int:
    found = 0
    for bits in sets:
        found |= bits
    return found


def _pairs(trace: Trace, role: Role) -> Iterator[tuple[Region, int]]:
    for done in trace.steps:
        values = done.writes if role is Role.WRITE else done.reads
        accesses = [a for a in done.instruction.accesses if a.role in (role, Role.ATOMIC)]
        yield from ((a.region, value) for a, value in zip(accesses, values, strict=True))
