"""Deadlock: the waits that nobody can satisfy any more, and the cycle they form."""

from __future__ import annotations

from . import instructions as ins
from .explain import place_of
from .graph import Graph
from .run import Run, Where
from .verdict import Finding, ScheduleRow

MAX_LINES = 6


def explain_deadlock(run: Run, graph: Graph) -> Finding:
    """One finding for the stuck state: who waits for whom, in a cycle or for nobody.

    Without a cycle the chain of waits ends at an agent that nobody is left to help: that wait is
    where it went wrong, and comes first.
    """
    helpers = {where: _could_help(run, where) for where in run.stuck}
    cycle = _cycle(run, helpers)
    chain = cycle or _chain(run, helpers)
    lines = tuple(dict.fromkeys(_line(run, where) for where in chain))
    reason = "each waits for the next, the last for the first"
    if not cycle:
        reason = f"nobody is left to complete what {_object(run, chain[0])} waits for"
    elif len(lines) == 1:
        reason = "only its own later steps could complete what it waits for"
    rows = tuple(ScheduleRow(place_of(graph, where), "blocked") for where in run.stuck[:12])
    return Finding(
        "deadlock", "error", _object(run, chain[0]), 1, place_of(graph, chain[0]),
        reason=reason, cycle=lines, schedule=rows,
    )  # fmt: skip


def _chain(run: Run, helpers: dict[Where, list[Where]]) -> list[Where]:
    """Waits that depend on each other, from the one that nobody can satisfy."""
    root = next((where for where in run.stuck if not helpers[where]), run.stuck[0])
    chain = [root]
    while True:
        after = next((w for w in run.stuck if chain[-1] in helpers[w] and w not in chain), None)
        if after is None or len(chain) == MAX_LINES:
            return chain
        chain.append(after)


def _object(run: Run, where: Where) -> str:
    instruction = run.step(where).instruction
    if isinstance(instruction, ins.MbarrierInstruction):
        return instruction.barrier.label
    return instruction.text


def _line(run: Run, where: Where) -> str:
    agent, step = run.agent(where), run.step(where)
    tile = "" if step.tile is None else f" for tile {step.tile}"
    return f"{agent.name} (CTA {agent.cta}) is blocked at {step.instruction.text}{tile}"


def _cycle(run: Run, helpers: dict[Where, list[Where]]) -> list[Where]:
    """A shortest cycle of stuck agents, each waiting for an arrival of the next; [] if none."""
    best: list[Where] = []
    for start in run.stuck:
        found = _shortest_back(start, helpers)
        if found and (not best or len(found) < len(best)):
            best = found
    return best


def _shortest_back(start: Where, helpers: dict[Where, list[Where]]) -> list[Where]:
    paths = [[start]]
    seen = {start}
    while paths:
        longer = []
        for path in paths:
            for after in helpers[path[-1]]:
                if after == start:
                    return path
                if after not in seen:
                    seen.add(after)
                    longer.append([*path, after])
        paths = longer
    return []


def _could_help(run: Run, where: Where) -> list[Where]:
    """Stuck agents whose remaining steps would arrive at what `where` waits for."""
    return [other for other in run.stuck if _arrives_later(run, other, where)]


def _arrives_later(run: Run, other: Where, blocked: Where) -> bool:
    wanted = run.step(blocked).instruction
    for step in run.agent(other).steps[other.step :]:
        instruction = step.instruction
        if isinstance(wanted, ins.MbarrierTryWait):
            if any(signal.barrier == wanted.barrier for signal in instruction.signals):
                return True
            if (
                isinstance(instruction, ins.MbarrierArrive)
                and instruction.barrier == wanted.barrier
            ):
                return True
        elif isinstance(wanted, ins.Bar) and isinstance(instruction, ins.Bar):
            same = run.agent(other).cta == run.agent(blocked).cta and instruction.id == wanted.id
            if same and other.agent != blocked.agent:
                return True
        elif isinstance(wanted, ins.ClusterWait) and isinstance(instruction, ins.ClusterArrive):
            return True
    return False
