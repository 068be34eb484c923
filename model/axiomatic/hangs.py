"""Termination: fair executions that do not end.

A thread waits at a barrier for ever, or it repeats a loop that changes nothing. Fairness: what a
read sees that is repeated for ever is a coherence-maximal write, since writes become visible
eventually (PTX ISA §8.6.1; taken for weak accesses too, as the published models do).
"""

from __future__ import annotations

from collections.abc import Sequence

from .candidates import Candidates
from .code import Test
from .combos import choices
from .settings import Setting, Settings
from .traces import Trace


def hangs(
    test: Test, traces: Sequence[Sequence[Trace]], settings: Settings, candidates: Candidates
) -> tuple[str, ...]:
    """A sentence for each way not to end. Errors: BudgetExceeded."""
    complete = [[trace for trace in each if not trace.cut] for each in traces]
    found: dict[str, None] = {}
    for setting, chosen in choices(test, complete, settings, candidates.prune):
        if not setting.ends(chosen):
            text = describe(test, setting, chosen)
            if text not in found and _possible(setting, chosen, candidates):
                found[text] = None
    return tuple(sorted(found))


def _possible(setting: Setting, traces: tuple[Trace, ...], candidates: Candidates) -> bool:
    lasting = silent = 0
    for where, (reads, writes) in setting.skeleton.events_of.items():
        repeats = traces[where.agent].repeats
        if 0 <= repeats <= where.step:
            lasting |= sum(1 << read for read in reads)
            silent |= sum(1 << write for write in writes)
    return any(
        candidates.locations(candidate, lasting, silent) is not None
        for candidate in candidates.of(setting, traces)
    )


def describe(test: Test, setting: Setting, traces: Sequence[Trace]) -> str:
    """Who waits where, and who repeats what."""
    parts = []
    for number, (thread, trace) in enumerate(zip(test.threads, traces, strict=True)):
        if number in setting.stuck and trace.repeats < 0:
            act = trace.steps[setting.executed[number]].act
            parts.append(f"{thread.name} waits at line {act.place.line} ({act.text})")
        elif trace.repeats >= 0:
            repeated = trace.steps[trace.repeats :]
            where = f"line {repeated[0].act.place.line}" if repeated else "its loop"
            parts.append(f"{thread.name} repeats {where} for ever")
    return "; ".join(parts)
