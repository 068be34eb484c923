"""Litmus tests from cycles of edges, in the spirit of herdtools' diy; see docs/diy.md.

A cycle of communication and program-order edges is what a sequentially consistent machine cannot
do, and its outcome is one condition over registers and final values. So a list of edges is a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...model.program import InputError
from . import family as families
from .cycle import Cycle, check_edges, make_cycle
from .edges import HAND_OFFS, read_words
from .names import full_name, rotated, words
from .text import Draft, Seat, check_name, seats
from .write import Writer

__all__ = ["family", "generate"]


def generate(cycle: Sequence[str], name: str | None = None, placement: str | None = None) -> str:
    """The litmus test of a cycle, as text.

    `cycle` lists edges and annotations. `placement` says for each thread after P0 how it stands to
    the one before, blank or `+` separated: warp, cta, cluster, gpu or sys is the smallest scope
    that includes both; one word is for all of them.
    """
    edges, marks = read_words(cycle)
    if not edges:
        raise InputError("no edges: PodWW Rfe PodRR Fre would make the test MP")
    check_edges(edges)
    edges, marks, shape = rotated(edges, marks)
    made = make_cycle(edges, marks)
    suffix = f"@{placement}" if placement else ""
    default = full_name(edges, marks, shape) + "+".join(suffix.split())
    title = check_name(default if name is None else name)
    draft = Draft(title, _places(made, placement), titles=(" ".join(words(edges, marks)),))
    Writer(made, draft).write()
    return draft.text()


def family(seed: int, count: int, threads: int = 4, events: int = 12) -> Iterator[tuple[str, str]]:
    """Random tests, (name, text) each; see `families`."""
    return families.family(seed, count, generate, threads, events)


def _places(cycle: Cycle, placement: str | None) -> list[Seat]:
    if placement is not None:
        return seats(cycle.threads, placement.replace("+", " ").split())
    return seats(cycle.threads, [_default(cycle)] if cycle.threads > 1 else [])


def _default(cycle: Cycle) -> str:
    """The farthest that lets every edge work: threads of different clusters, unless something
    ties them to one CTA or one cluster."""
    steps = [step for edge in cycle.edges for step in edge.steps if step in HAND_OFFS]
    if "BarWarp" in steps:
        return "warp"
    local = any(step.startswith("Bar") or step.endswith(".cta") for step in steps)
    if local or any(event.mark.tensor for event in cycle.events):
        return "cta"
    if steps or any(event.mark.kind in ("tma", "tma.store") for event in cycle.events):
        return "cluster"
    return "gpu"
