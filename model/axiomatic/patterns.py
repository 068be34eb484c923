"""Release and acquire patterns (PTX ISA §8.8), and what they make of values: ties.

A pattern is a place in a thread (`node`: where it releases or acquires), the strong access by
which another thread observes it, and a rule of the table. To tell morally strong patterns
(§8.9.4) apart, it keeps the scope of its first (last) operation, and its location unless that is
a fence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import instructions as ins
from ..composition import Edge, Label
from ..graph import AccessEvent
from ..instructions import Pool, Proxy, Role, Scope, Sem
from ..run import Where

if TYPE_CHECKING:
    from .skeleton import Skeleton, Tie


@dataclass(frozen=True)
class Pattern:
    """`access` is the write that is observed, or the read that observes."""

    rule: str
    node: int
    access: AccessEvent
    scope: Scope
    place: tuple[object, ...] | None
    """Where the first (last) operation accesses memory; None for a fence."""


def ties(skeleton: Skeleton) -> Iterator[Tie]:
    """All edges that depend on values: patterns, tcgen05 carriers, fence.sc."""
    yield from _synchronizing(skeleton)
    yield from _carriers(skeleton)
    yield from _fences(skeleton)


def _synchronizing(skeleton: Skeleton) -> Iterator[Tie]:
    from .skeleton import Tie

    if not skeleton.context.has("synchronizes"):
        return
    acquires = list(_acquires(skeleton))
    for release in _releases(skeleton):
        for acquire in acquires:
            if _pair(skeleton, release, acquire):
                label = Label(Edge.SYNC, "synchronizes", scope=release.scope)
                write, read = release.access.number, acquire.access.number
                yield Tie(release.node, acquire.node, label, write, read)


def _pair(skeleton: Skeleton, release: Pattern, acquire: Pattern) -> bool:
    """Different threads, one location, and morally strong ends (§8.9.4)."""
    one, other = release.access, acquire.access
    if one.where.agent == other.where.agent or one.access.region != other.access.region:
        return False
    places = {place for place in (release.place, acquire.place) if place is not None}
    return len(places) < 2 and skeleton.context.meet(
        release.scope, one.cta, acquire.scope, other.cta
    )


def _releases(skeleton: Skeleton) -> Iterator[Pattern]:
    for event in _strong(skeleton):
        if event.access.role is not Role.READ:
            yield from _release_at(skeleton, event)


def _release_at(skeleton: Skeleton, write: AccessEvent) -> Iterator[Pattern]:
    """The release patterns that end in a strong write."""
    has, node_of = skeleton.context.has, skeleton.graph.issue_of
    if _sem(skeleton, write.where).releases and has("release-write"):
        yield _at(skeleton, "release-write", write, write)
    for where, instruction in _steps(skeleton, write.where, before=True):
        if isinstance(instruction, ins.Fence):
            if instruction.sem.releases and has("release-fence"):
                yield Pattern("release-fence", node_of[where], write, instruction.scope, None)
        elif has("release-write-then-write") and _sem(skeleton, where).releases:
            for first in _same_place(skeleton, where, write, Role.READ):
                yield _at(skeleton, "release-write-then-write", first, write)


def _acquires(skeleton: Skeleton) -> Iterator[Pattern]:
    for event in _strong(skeleton):
        if event.access.role is not Role.WRITE and _returns(skeleton, event):
            yield from _acquire_at(skeleton, event)


def _acquire_at(skeleton: Skeleton, read: AccessEvent) -> Iterator[Pattern]:
    """The acquire patterns that begin with a strong read."""
    has, node_of = skeleton.context.has, skeleton.graph.issue_of
    if _sem(skeleton, read.where).acquires and has("acquire-read"):
        yield _at(skeleton, "acquire-read", read, read)
    for where, instruction in _steps(skeleton, read.where, before=False):
        if isinstance(instruction, ins.Fence):
            if instruction.sem.acquires and has("acquire-fence"):
                yield Pattern("acquire-fence", node_of[where], read, instruction.scope, None)
        elif has("acquire-read-then-read") and _sem(skeleton, where).acquires:
            for last in _same_place(skeleton, where, read, Role.WRITE):
                if _returns(skeleton, last):
                    yield _at(skeleton, "acquire-read-then-read", last, read)


def _at(skeleton: Skeleton, rule: str, end: AccessEvent, access: AccessEvent) -> Pattern:
    """A pattern whose first (last) operation is the access `end`."""
    assert end.access.strong is not None
    node = skeleton.graph.issue_of[end.where]
    return Pattern(rule, node, access, end.access.strong, _place(end))


def _place(event: AccessEvent) -> tuple[object, ...]:
    return (event.access.region, event.access.address, event.access.proxy)


def _same_place(
    skeleton: Skeleton, where: Where, other: AccessEvent, not_role: Role
) -> Iterator[AccessEvent]:
    for event in _strong(skeleton):
        here = event.where == where and event.access.role is not not_role
        if here and _place(event) == _place(other):
            yield event


def _strong(skeleton: Skeleton) -> Iterator[AccessEvent]:
    """Strong accesses in program order (those of asynchronous operations are not)."""
    for event in skeleton.accesses:
        if event.access.strong is not None and event.pool is Pool.GENERIC:
            yield event


def _sem(skeleton: Skeleton, where: Where) -> Sem:
    instruction = skeleton.graph.step(where).instruction
    if isinstance(instruction, (ins.Load, ins.Store, ins.Atomic)):
        return instruction.sem
    return Sem.WEAK


def _returns(skeleton: Skeleton, event: AccessEvent) -> bool:
    """`red` reads nothing that a thread sees: it starts no acquire pattern (§8.11.1)."""
    instruction = skeleton.graph.step(event.where).instruction
    return not isinstance(instruction, ins.Atomic) or instruction.returns


def _steps(
    skeleton: Skeleton, where: Where, before: bool
) -> Iterator[tuple[Where, ins.Instruction]]:
    """The thread's steps before (after) one."""
    steps = skeleton.run.program.agents[where.agent].steps
    numbers = range(where.step) if before else range(where.step + 1, len(steps))
    for number in numbers:
        yield Where(where.agent, number), steps[number].instruction


def _carriers(skeleton: Skeleton) -> Iterator[Tie]:
    """A strong write and a strong read of its value carry what tcgen05.fences put around them."""
    from .skeleton import Tie, observe_label

    if not any(event.access.proxy is Proxy.TMEM for event in skeleton.accesses):
        return
    node_of = skeleton.graph.issue_of
    for write in _strong(skeleton):
        for read in _strong(skeleton):
            if _carries(skeleton, write, read):
                scope = read.access.strong or Scope.CTA
                label = observe_label(scope, write.cta)
                ends = node_of[write.where], node_of[read.where]
                yield Tie(*ends, label, write.number, read.number)


def _carries(skeleton: Skeleton, write: AccessEvent, read: AccessEvent) -> bool:
    """May the read observe the write, in another thread?"""
    roles = write.access.role is not Role.READ and read.access.role is not Role.WRITE
    strong = skeleton.strong.rows[write.number] >> read.number & 1
    return bool(roles and strong) and write.where.agent != read.where.agent


def _fences(skeleton: Skeleton) -> Iterator[Tie]:
    from .skeleton import Tie

    if not skeleton.context.has("fence-sc-order"):
        return
    for a, b in skeleton.fence_pairs:
        for first, second in ((a, b), (b, a)):
            one, other = skeleton.fences[first], skeleton.fences[second]
            label = Label(Edge.SYNC, "fence-sc-order", scope=one.scope)
            yield Tie(one.node, other.node, label, fences=(first, second))
