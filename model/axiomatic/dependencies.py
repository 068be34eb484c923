"""Instruction dependencies of a candidate (PTX ISA §8.10.4): from reads to writes.

A write depends on the reads that its value, its address, or its execution needs. A wait cannot
pass before the arrivals it waits for, so what follows it depends on what those depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..run import Where
from .relations import Relation
from .traces import Sources, Trace

if TYPE_CHECKING:
    from .settings import Setting


def dependencies(setting: Setting, traces: Sequence[Trace]) -> Relation:
    """From each read to the writes that depend on it."""
    skeleton = setting.skeleton
    events = skeleton.events_of
    rows = [0] * skeleton.size
    carried = _carried(setting, traces)

    def reads_of(agent: int, sources: Sources) -> list[int]:
        return [events[Where(agent, step)][0][number] for step, number in sources]

    for where, (_, writes) in events.items():
        done = traces[where.agent].steps[where.step]
        for write, sources in zip(writes, done.sources, strict=True):
            reads = reads_of(where.agent, sources)
            reads += [
                read
                for agent, through in carried.get(where, ())
                for read in reads_of(agent, through)
            ]
            for read in reads:
                rows[read] |= 1 << write
    return Relation(rows)


Carried = frozenset[tuple[int, Sources]]


def _carried(setting: Setting, traces: Sequence[Trace]) -> dict[Where, Carried]:
    """For each step, what the waits before it in its thread had to wait for: the control
    dependencies of arrivals, by thread."""
    blocking = setting.skeleton.blocking
    if not blocking:
        return {}
    known: dict[Where, Carried] = {}
    of_thread: dict[int, Carried] = {}
    for where in setting.skeleton.run.order:
        known[where] = of_thread.get(where.agent, frozenset())
        for arrival in blocking.get(where, ()):
            control = traces[arrival.agent].steps[arrival.step].control
            more = known.get(arrival, frozenset()) | {(arrival.agent, control)}
            of_thread[where.agent] = of_thread.get(where.agent, frozenset()) | more
    return known
