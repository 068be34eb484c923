"""Instruction dependencies (PTX ISA §8.10.4) on the solver's paths: from reads to writes.

A write needs the reads in its value, in its address, and in the conditions of its execution; and,
after a wait, those that decided whether the arrivals came that it waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..run import Where
from .path import Path
from .skeleton import Skeleton

Pairs = dict[tuple[int, int], bool]


def dependent(skeleton: Skeleton, paths: Sequence[Path]) -> Pairs:
    """The pairs (read, write) of events."""
    return dict.fromkeys(_Dependencies(skeleton, paths).pairs(), True)


class _Dependencies:
    """`awaited[where]`: the reads without which the waits before a step would not have passed."""

    def __init__(self, skeleton: Skeleton, paths: Sequence[Path]) -> None:
        self.skeleton = skeleton
        self.paths = paths
        self.waits: dict[int, list[Where]] = {}
        for where in sorted(skeleton.blocking, key=lambda each: (each.agent, each.step)):
            self.waits.setdefault(where.agent, []).append(where)
        self.awaited: dict[Where, frozenset[int]] = {}

    def pairs(self) -> Iterator[tuple[int, int]]:
        for where, (_, writes) in self.skeleton.events_of.items():
            taken = self.paths[where.agent].steps[where.step]
            for write, needs in zip(writes, taken.needs, strict=True):
                reads = self._events(where.agent, needs) | self._awaited(where)
                yield from ((read, write) for read in sorted(reads))

    def _events(self, agent: int, reads: frozenset[tuple[int, int]]) -> frozenset[int]:
        events = self.skeleton.events_of
        return frozenset(events[Where(agent, step)][0][n] for step, n in reads)

    def _awaited(self, where: Where) -> frozenset[int]:
        if where in self.awaited:
            return self.awaited[where]
        self.awaited[where] = frozenset()  # arrivals come before waits: there is no cycle
        found: set[int] = set()
        for wait in self.waits.get(where.agent, ()):
            if wait.step < where.step:
                for arrival in self.skeleton.blocking[wait]:
                    control = self.paths[arrival.agent].steps[arrival.step].control
                    found |= self._events(arrival.agent, control) | self._awaited(arrival)
        self.awaited[where] = frozenset(found)
        return self.awaited[where]
