"""Random programs of generic accesses, judged by the model and by a few lines of chapter 8.

The oracle is base causality (PTX ISA §8.9.5) as written: program order and synchronizes, closed
transitively. It knows mbarriers with one arrival, fences, and execution barriers, with scopes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from lastread.model import check
from lastread.model import instructions as ins
from lastread.model.instructions import Instruction, Scope
from programs import (
    ACQ_REL,
    ACQUIRE,
    CLUSTER,
    CTA,
    RELAXED,
    RELEASE,
    G,
    agent,
    arrive,
    bar,
    bar_arrive,
    cluster_arrive,
    cluster_wait,
    fence,
    ld,
    mbar,
    program,
    st,
    wait,
)

Strands = list[list[Instruction]]
Place = tuple[int, int]
SCOPES = (CTA, CLUSTER)


# --- random programs ------------------------------------------------------------------------------


def strands(rng: random.Random) -> tuple[list[int], Strands]:
    """The CTA of each thread, and its steps: two accesses of G, and hand-offs around them."""
    ctas = [rng.choice((0, 0, 1)) for _ in range(rng.choice((2, 3, 3, 4)))]
    found: Strands = [[] for _ in ctas]
    for number in range(rng.choice((1, 2, 2, 3))):
        giver, taker = rng.sample(range(len(ctas)), 2)
        barrier = mbar("abcdefg"[number], cta=ctas[taker])
        found[giver].append(arrive(barrier, rng.choice((RELAXED, RELEASE)), rng.choice(SCOPES)))
        found[taker].append(wait(barrier, 0, rng.choice((RELAXED, ACQUIRE)), rng.choice(SCOPES)))
    _named_barrier(rng, ctas, found)
    if rng.random() < 0.25:
        for strand in found:
            at = rng.randint(0, len(strand))
            strand.insert(at, cluster_wait(rng.choice((ACQUIRE, ACQUIRE, RELAXED))))
            strand.insert(at, cluster_arrive(rng.choice((RELEASE, RELEASE, RELAXED))))
    accesses = [st(G), rng.choice((st(G), ld(G)))]
    rng.shuffle(accesses)
    for thread, access in zip(rng.sample(range(len(ctas)), 2), accesses, strict=True):
        found[thread].insert(rng.randint(0, len(found[thread])), access)
    for strand in found:
        while rng.random() < 0.5:
            kind = fence(rng.choice((ACQUIRE, RELEASE, ACQ_REL)), rng.choice(SCOPES))
            strand.insert(rng.randint(0, len(strand)), kind)
    return ctas, found


def _named_barrier(rng: random.Random, ctas: list[int], found: Strands) -> None:
    here = [thread for thread, cta in enumerate(ctas) if cta == 0]
    if len(here) < 2 or rng.random() < 0.6:
        return
    rng.shuffle(here)
    for number, thread in enumerate(here):
        alone = number > 0 and rng.random() < 0.3
        step = bar_arrive(len(here)) if alone else bar(len(here))
        found[thread].insert(rng.randint(0, len(found[thread])), step)


# --- the oracle -----------------------------------------------------------------------------------


def inclusive(one: Scope, cta: int, other: Scope, there: int) -> bool:
    return cta == there or (one >= CLUSTER and other >= CLUSTER)


def places(found: Strands) -> Iterator[tuple[Place, Instruction]]:
    for thread, strand in enumerate(found):
        for index, step in enumerate(strand):
            yield (thread, index), step


def fences(strand: Sequence[Instruction], indices: range, release: bool) -> list[tuple[int, Scope]]:
    return [
        (i, step.scope)
        for i in indices
        if isinstance(step := strand[i], ins.Fence)
        and (step.sem.releases if release else step.sem.acquires)
    ]


def synchronizes(ctas: list[int], found: Strands) -> Iterator[tuple[Place, Place]]:
    for (t, i), one in places(found):
        for (u, j), other in places(found):
            if t == u:
                continue
            if isinstance(one, ins.Bar) and isinstance(other, ins.Bar) and other.waits:
                yield (t, i), (u, j)
            scopes = _strong(one, other)
            if scopes is None or not inclusive(scopes[0], ctas[t], scopes[1], ctas[u]):
                continue
            starts = fences(found[t], range(i), True)
            starts += [(i, scopes[0])] if one.sem.releases else []  # type: ignore[attr-defined]
            ends = fences(found[u], range(j + 1, len(found[u])), False)
            ends += [(j, scopes[1])] if other.sem.acquires else []  # type: ignore[attr-defined]
            for start, wide in starts:
                for end, scope in ends:
                    if inclusive(wide, ctas[t], scope, ctas[u]):
                        yield (t, start), (u, end)


def _strong(one: Instruction, other: Instruction) -> tuple[Scope, Scope] | None:
    """The scopes of an arrive and of a wait that observes it."""
    if isinstance(one, ins.ClusterArrive) and isinstance(other, ins.ClusterWait):
        return CLUSTER, CLUSTER
    if isinstance(one, ins.MbarrierArrive) and isinstance(other, ins.MbarrierTryWait):
        return (one.scope, other.scope) if one.barrier == other.barrier else None
    return None


def ordered(ctas: list[int], found: Strands) -> bool:
    """Is one of the two accesses before the other in base causality?"""
    after: dict[Place, list[Place]] = {place: [] for place, _ in places(found)}
    for thread, strand in enumerate(found):
        for index in range(len(strand) - 1):
            after[thread, index].append((thread, index + 1))
    for start, end in synchronizes(ctas, found):
        after[start].append(end)
    one, other = [p for p, step in places(found) if isinstance(step, (ins.Load, ins.Store))]
    return other in _reached(after, one) or one in _reached(after, other)


def _reached(after: dict[Place, list[Place]], start: Place) -> set[Place]:
    seen, left = {start}, [start]
    while left:
        for place in after[left.pop()]:
            if place not in seen:
                seen.add(place)
                left.append(place)
    return seen


def text(ctas: list[int], found: Strands) -> str:
    return "; ".join(
        f"T{t}@{cta}: {', '.join(repr(step) for step in strand)}"
        for t, (cta, strand) in enumerate(zip(ctas, found, strict=True))
    )


@pytest.mark.parametrize("seed", range(8))
def test_model_and_base_causality_agree(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        ctas, found = strands(rng)
        agents = [agent(f"T{t}", s, ctas[t], t) for t, s in enumerate(found)]
        result = check(program(*agents), "strict")
        if result.verdict in ("ordered", "race"):
            assert (result.verdict == "ordered") == ordered(ctas, found), text(ctas, found)
