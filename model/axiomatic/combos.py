"""One trace for each thread, such that every read can have its value from some write.

Traces with the same instructions share their settings. In a setting the order that does not depend
on values says which writes a read can see, so most combinations of traces are never made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from ..instructions import Role
from ..program import Word
from .code import Test
from .settings import Setting, Settings
from .traces import Trace

Pairs = tuple[tuple[int, int], ...]
"""Events with their values."""


def choices(
    test: Test, traces: Sequence[Sequence[Trace]], settings: Settings, prune: bool
) -> Iterator[tuple[Setting, tuple[Trace, ...]]]:
    """Settings, each with one trace a thread. With `prune`, reads see no write that breaks
    causality whatever else is chosen. Errors: BudgetExceeded."""
    groups = [_by_shape(each) for each in traces]
    for shape in product(*groups):
        fitting = _readable(test, shape)
        if all(fitting):
            for setting in settings.of([each[0] for each in shape]):
                yield from ((setting, chosen) for chosen in Fit(setting, fitting, prune).all())


def _by_shape(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Traces that execute the same instructions, together."""
    groups: dict[tuple[object, ...], list[Trace]] = {}
    for trace in traces:
        key = (trace.repeats >= 0, id(trace.park), *(id(done.instruction) for done in trace.steps))
        groups.setdefault(key, []).append(trace)
    return list(groups.values())


def _readable(test: Test, shape: Sequence[Sequence[Trace]]) -> list[list[Trace]]:
    """Of each thread's traces, those that read only what the initial state has, or some trace
    writes."""
    values = {(each.region.word, each.initial) for each in test.named.values()}
    values |= {pair for each in shape for trace in each for pair in _pairs(trace, Role.WRITE)}
    return [[t for t in each if values.issuperset(_pairs(t, Role.READ))] for each in shape]


def _pairs(trace: Trace, role: Role) -> Iterator[tuple[Word, int]]:
    for done in trace.steps:
        values = done.writes if role is Role.WRITE else done.reads
        accesses = [a for a in done.instruction.accesses if a.role in (role, Role.ATOMIC)]
        yield from ((a.region.word, value) for a, value in zip(accesses, values, strict=True))


class Fit:
    """The combinations of traces of one shape in one setting."""

    def __init__(self, setting: Setting, traces: Sequence[Sequence[Trace]], prune: bool) -> None:
        self.setting = setting
        self.sources = setting.sources(prune)
        self.options = [self._options(n, each) for n, each in enumerate(traces)]
        skeleton = setting.skeleton
        self.initial = {skeleton.initial[word.word]: word.initial for word in skeleton.words}

    def _options(self, thread: int, traces: Sequence[Trace]) -> list[tuple[Trace, Pairs, Pairs]]:
        """A thread's traces with what they read and write; one of those that differ only after
        the thread is stuck."""
        steps = [
            (where.step, events)
            for where, events in self.setting.skeleton.events_of.items()
            if where.agent == thread
        ]
        found: dict[tuple[Pairs, Pairs], Trace] = {}
        stuck = bool(self.setting.stuck)
        kept = []
        for trace in traces:
            reads: list[tuple[int, int]] = []
            writes: list[tuple[int, int]] = []
            for step, (read, write) in steps:
                reads += zip(read, trace.steps[step].reads, strict=True)
                writes += zip(write, trace.steps[step].writes, strict=True)
            key = (tuple(reads), tuple(writes))
            if not stuck or key not in found:
                found[key] = trace
                kept.append((trace, *key))
        return kept

    def all(self) -> Iterator[tuple[Trace, ...]]:
        possible = self._narrow()
        if all(self.options):
            yield from self._choose((), dict(self.initial), (), possible)

    def _narrow(self) -> dict[int, set[int]]:
        """Leaves out traces that read what no trace writes; what each write may write."""
        while True:
            possible = {event: {value} for event, value in self.initial.items()}
            for options in self.options:
                for _, _, writes in options:
                    for event, value in writes:
                        possible.setdefault(event, set()).add(value)
            kept = [[o for o in each if self._fits(o[1], {}, possible)] for each in self.options]
            if [*map(len, kept)] == [*map(len, self.options)]:
                return possible
            self.options = kept

    def _fits(self, reads: Pairs, values: dict[int, int], possible: dict[int, set[int]]) -> bool:
        """Can all reads have their values, given what the chosen threads write?"""
        return all(
            any(
                values[write] == value if write in values else value in possible.get(write, ())
                for write in self.sources[read]
            )
            for read, value in reads
        )

    def _choose(
        self,
        chosen: tuple[Trace, ...],
        values: dict[int, int],
        reads: Pairs,
        possible: dict[int, set[int]],
    ) -> Iterator[tuple[Trace, ...]]:
        if len(chosen) == len(self.options):
            yield chosen
            return
        for trace, more, writes in self.options[len(chosen)]:
            known, every = {**values, **dict(writes)}, reads + more
            if self._fits(every, known, possible):
                yield from self._choose((*chosen, trace), known, every, possible)
